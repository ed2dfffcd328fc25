import { assertNever } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { EngineJob } from '../engine.ts';

/** What a job of the local engine may use. KB are 1,000 bytes, MB 1,000,000. */
export interface JobLimits {
  memoryMb: number;
  /** Of stdout and of stderr, each. */
  outputKb: number;
  /** Between asking a job to end and killing it. */
  killGraceSeconds: number;
}

/** What brings a job that runs to its end. The first cause counts, whatever follows from it. */
export type Cause =
  | { kind: 'exited'; code: number | null; signal: NodeJS.Signals | null }
  | { kind: 'time_is_up' }
  | { kind: 'memory_exceeded' }
  | { kind: 'output_exceeded'; stream: 'stdout' | 'stderr' }
  | { kind: 'cancelled'; byOwner: boolean }
  | { kind: 'broken'; reason: string };

export type RunResult = Pick<JobEnd, 'outcome' | 'reason' | 'exitCode'>;

export function judge(cause: Cause, job: EngineJob, limits: JobLimits): RunResult {
  switch (cause.kind) {
    case 'exited':
      return judgeExit(cause.code, cause.signal, job);
    case 'time_is_up':
      return verdict('timed_out', `it reached its time limit of ${job.runtimeSeconds} s`);
    case 'memory_exceeded':
      return verdict('out_of_memory', `it used more than ${limits.memoryMb} MB of memory`);
    case 'output_exceeded':
      return verdict('output_exceeded', `it wrote more than ${limits.outputKb} KB to ${cause.stream}`);
    case 'cancelled':
      // Nobody but its owner cancels a job; who stops the host must not make the owner pay for it.
      return cause.byOwner
        ? verdict('cancelled', cancelledByOwner)
        : verdict('node_failed', 'its supervisor was told to stop (is the machine shutting down?)');
    case 'broken':
      return verdict('node_failed', cause.reason);
    default:
      return assertNever(cause);
  }
}

const cancelledByOwner = 'cancelled by its owner';

/** True when the job is asked to end before it is killed, so that it can put its results in order. */
export function deservesGrace(cause: Cause): boolean {
  return cause.kind === 'time_is_up' || cause.kind === 'cancelled';
}

/** The end of a job that never ran. */
export function endUnstarted(outcome: JobEnd['outcome'], reason: string, endedAt: number): JobEnd {
  return { outcome, reason, exitCode: null, startedAt: null, endedAt, elapsedSeconds: 0 };
}

export const endCancelledUnstarted = (endedAt: number) => endUnstarted('cancelled', cancelledByOwner, endedAt);

/** The end of a job that nobody has watched: what it used is not known. */
export function endLost(reason: string, startedAt: number | null, endedAt: number): JobEnd {
  return { outcome: 'lost', reason, exitCode: null, startedAt, endedAt, elapsedSeconds: 0 };
}

function verdict(outcome: JobEnd['outcome'], reason: string, exitCode: number | null = null): RunResult {
  return { outcome, reason, exitCode };
}

function judgeExit(code: number | null, signal: NodeJS.Signals | null, job: EngineJob): RunResult {
  if (code === null) return verdict('failed', `killed by ${signal}`);
  if (code === 0) return verdict('succeeded', 'exit code 0', 0);
  // Shells use these two codes for themselves; of any other program they may mean anything.
  if (job.command.kind !== 'argv') {
    if (code === 127) return verdict('failed', 'command not found (exit code 127): stderr says which', code);
    if (code === 126) return verdict('failed', 'command not executable (exit code 126): stderr says which', code);
  }
  return verdict('failed', `exit code ${code}`, code);
}
