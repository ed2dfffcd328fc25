import type { JobEnd } from '../../domain/jobs/job.ts';
import type { EngineJob } from '../engine.ts';
import { type EndCause, type JobLimits, toRunOutcome } from './job-end.ts';

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
