import { assertNever } from '../../domain/errors.ts';
import { formatBytes, formatCharge } from '../../domain/format-amount.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { bytesPerKb } from '../../domain/units.ts';
import type { EngineJob } from '../engine.ts';
import { describeShellExitCode } from '../exit-outcome.ts';

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
  /** By the owner, or by a signal to the supervisor. */
  | { kind: 'stop_requested'; byOwner: boolean }
  | { kind: 'node_error'; reason: string };

/** Bubblewrap could not set up the sandbox, or could not start the program. Nothing of the job has run. */
export interface SandboxNotStarted {
  kind: 'not_started';
}

export type RunOutcome = Pick<JobEnd, 'outcome' | 'reason' | 'exitCode'>;

export function toRunOutcome(cause: EndCause, job: EngineJob, limits: JobLimits): RunOutcome {
  switch (cause.kind) {
    case 'exited':
      return toExitOutcome(cause.code, cause.signal, job);
    case 'time_limit_reached':
      return buildOutcome('timed_out', `it reached its time limit of ${formatCharge(job.runtimeSeconds, 'wall')}`);
    case 'memory_exceeded':
      return buildOutcome('out_of_memory', `it used more than ${formatBytes(limits.memoryMb * 1_000_000)} of memory`);
    case 'output_exceeded':
      return buildOutcome(
        'output_exceeded',
        `it wrote more than ${formatBytes(limits.outputKb * bytesPerKb)} to ${cause.stream}`,
      );
    case 'stop_requested':
      // If the host shuts down, the owner must not pay for the job.
      return cause.byOwner
        ? buildOutcome('cancelled', cancelledByOwner)
        : buildOutcome('node_failed', 'its supervisor was told to stop (is the machine shutting down?)');
    case 'node_error':
      return buildOutcome('node_failed', cause.reason);
    default:
      return assertNever(cause);
  }
}

const cancelledByOwner = 'cancelled by its owner';

/** True if the job gets SIGTERM before it is killed, so that it can save its results. */
export function hasGracePeriod(cause: EndCause): boolean {
  return cause.kind === 'time_limit_reached' || cause.kind === 'stop_requested';
}

export function buildEndWithoutStart(outcome: JobEnd['outcome'], reason: string, endedAt: number): JobEnd {
  return { outcome, reason, exitCode: null, startedAt: null, endedAt, elapsedSeconds: 0 };
}

export const buildCancelledEnd = (endedAt: number) => buildEndWithoutStart('cancelled', cancelledByOwner, endedAt);

/** The usage of a lost job is unknown, so 0 s are charged. */
export function buildLostEnd(reason: string, startedAt: number | null, endedAt: number): JobEnd {
  return { outcome: 'lost', reason, exitCode: null, startedAt, endedAt, elapsedSeconds: 0 };
}

function buildOutcome(outcome: JobEnd['outcome'], reason: string, exitCode: number | null = null): RunOutcome {
  return { outcome, reason, exitCode };
}

function toExitOutcome(code: number | null, signal: NodeJS.Signals | null, job: EngineJob): RunOutcome {
  if (code === null) return buildOutcome('failed', `killed by ${signal}`);
  const reason = job.command.kind === 'argv' ? `exit code ${code}` : describeShellExitCode(code);
  return buildOutcome(code === 0 ? 'succeeded' : 'failed', reason, code);
}

/** The cause for which a running job should have ended, and for how long it has been overdue. */
export interface Overdue {
  cause: EndCause;
  overdueMs: number;
}

/** Null if the job may still run. The first cause decides the outcome, as in the supervisor. */
export function findOverdue(sinceTimeLimitMs: number, sinceCancellationMs: number | null): Overdue | null {
  if (sinceCancellationMs !== null && sinceCancellationMs > sinceTimeLimitMs)
    return { cause: { kind: 'stop_requested', byOwner: true }, overdueMs: sinceCancellationMs };
  if (sinceTimeLimitMs > 0) return { cause: { kind: 'time_limit_reached' }, overdueMs: sinceTimeLimitMs };
  return null;
}

/** The end of a job whose supervisor had to be killed. */
export function buildOverdueEnd(
  { cause }: Overdue,
  job: EngineJob,
  limits: JobLimits,
  times: Pick<JobEnd, 'startedAt' | 'endedAt'> & { elapsedMs: number },
): JobEnd {
  const { outcome, reason, exitCode } = toRunOutcome(cause, job, limits);
  return {
    outcome,
    reason: `${reason} (its supervisor did not respond)`,
    exitCode,
    startedAt: times.startedAt,
    endedAt: times.endedAt,
    elapsedSeconds: Math.max(1, Math.round(times.elapsedMs / 1000)),
  };
}
