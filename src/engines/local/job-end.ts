import { assertNever } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import type { EngineJob } from '../engine.ts';

/** Limits of each job of the local engine. 1 KB is 1,000 bytes, 1 MB is 1,000,000 bytes. */
export interface JobLimits {
  memoryMb: number;
  /** For stdout and for stderr, each. */
  outputKb: number;
  /** The time between SIGTERM and SIGKILL. */
  killGraceSeconds: number;
}

/** A cause of the end of a running job. The first cause decides the outcome. */
export type EndCause =
  | { kind: 'exited'; code: number | null; signal: NodeJS.Signals | null }
  | { kind: 'time_limit_reached' }
  | { kind: 'memory_exceeded' }
  | { kind: 'output_exceeded'; stream: 'stdout' | 'stderr' }
  | { kind: 'cancelled'; byOwner: boolean }
  | { kind: 'node_error'; reason: string };

export type RunOutcome = Pick<JobEnd, 'outcome' | 'reason' | 'exitCode'>;

export function toRunOutcome(cause: EndCause, job: EngineJob, limits: JobLimits): RunOutcome {
  switch (cause.kind) {
    case 'exited':
      return toExitOutcome(cause.code, cause.signal, job);
    case 'time_limit_reached':
      return outcomeOf('timed_out', `it reached its time limit of ${job.runtimeSeconds} s`);
    case 'memory_exceeded':
      return outcomeOf('out_of_memory', `it used more than ${limits.memoryMb} MB of memory`);
    case 'output_exceeded':
      return outcomeOf('output_exceeded', `it wrote more than ${limits.outputKb} KB to ${cause.stream}`);
    case 'cancelled':
      // Only the owner cancels a job. If the supervisor is stopped with the host, the owner must not pay for the job.
      return cause.byOwner
        ? outcomeOf('cancelled', cancelledByOwner)
        : outcomeOf('node_failed', 'its supervisor was told to stop (is the machine shutting down?)');
    case 'node_error':
      return outcomeOf('node_failed', cause.reason);
    default:
      return assertNever(cause);
  }
}

const cancelledByOwner = 'cancelled by its owner';

/** True if the job gets SIGTERM before it is killed, so that it can save its results. */
export function hasGracePeriod(cause: EndCause): boolean {
  return cause.kind === 'time_limit_reached' || cause.kind === 'cancelled';
}

/** Builds the end of a job that never ran. */
export function endWithoutStart(outcome: JobEnd['outcome'], reason: string, endedAt: number): JobEnd {
  return { outcome, reason, exitCode: null, startedAt: null, endedAt, elapsedSeconds: 0 };
}

export const endCancelledWithoutStart = (endedAt: number) => endWithoutStart('cancelled', cancelledByOwner, endedAt);

/** Builds the end of a job without a supervisor: its usage is unknown, so 0 s are charged. */
export function endLost(reason: string, startedAt: number | null, endedAt: number): JobEnd {
  return { outcome: 'lost', reason, exitCode: null, startedAt, endedAt, elapsedSeconds: 0 };
}

function outcomeOf(outcome: JobEnd['outcome'], reason: string, exitCode: number | null = null): RunOutcome {
  return { outcome, reason, exitCode };
}

function toExitOutcome(code: number | null, signal: NodeJS.Signals | null, job: EngineJob): RunOutcome {
  if (code === null) return outcomeOf('failed', `killed by ${signal}`);
  if (code === 0) return outcomeOf('succeeded', 'exit code 0', 0);
  // Only shells give these two codes a fixed meaning; in other programs they may mean anything.
  if (job.command.kind !== 'argv') {
    if (code === 127) return outcomeOf('failed', 'command not found (exit code 127): stderr says which', code);
    if (code === 126) return outcomeOf('failed', 'command not executable (exit code 126): stderr says which', code);
  }
  return outcomeOf('failed', `exit code ${code}`, code);
}
