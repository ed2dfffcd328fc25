/** `degraded`: the last poll failed or was slow. `down`: several polls in a row have failed. */
export type SystemStatus = 'up' | 'degraded' | 'down';

/** A reason why the server cannot store data: nothing can be submitted, and no change of a job can be recorded. */
export interface StorageProblem {
  /** In epoch milliseconds. */
  since: number;
  detail: string;
}

export interface PollResult {
  durationMs: number;
  /** Null if the poll succeeded. */
  error: string | null;
}

/** The jobs that a system does not accept although it may answer. */
export interface DelayedJobs {
  count: number;
  /** Epoch milliseconds. */
  since: number;
  /** Why one of them is delayed. */
  reason: string;
}

export interface SystemHealth {
  status: SystemStatus;
  /** When the status last changed, in epoch milliseconds. */
  since: number;
  detail: string;
}

/** The health of a system to which jobs cannot be submitted: it is no better than degraded. */
export function withDelayedJobs<T extends SystemHealth>(health: T, delayed: DelayedJobs | undefined): T {
  if (delayed === undefined) return health;
  const jobs = delayed.count === 1 ? '1 job cannot be submitted' : `${delayed.count} jobs cannot be submitted`;
  const detail = `${jobs} at the moment; the timeline of each says why`;
  return health.status === 'up'
    ? { ...health, status: 'degraded', since: delayed.since, detail }
    : { ...health, detail: `${health.detail.replace(/\.$/, '')}; ${detail}` };
}

const slowMs = 5000;
const minFailuresForDown = 2;
const minFailingMsForDown = 15_000;

/**
 * The detail for users. The error of a poll is for operators: it may name paths, hosts, accounts and remedies that are of
 * no use to a user.
 */
export const publicDetails: Readonly<Record<SystemStatus, string>> = {
  up: 'the scheduler answers',
  degraded: 'the scheduler answers slowly or with errors',
  down: 'the scheduler does not answer',
};

/** `consecutiveFailures` includes this poll; `failingMs` is the time since the last success. */
export function statusAfterPoll(
  { durationMs, error }: PollResult,
  { consecutiveFailures, failingMs }: { consecutiveFailures: number; failingMs: number },
): { status: SystemStatus; detail: string } {
  if (error !== null) {
    const isDown = consecutiveFailures >= minFailuresForDown && failingMs >= minFailingMsForDown;
    return { status: isDown ? 'down' : 'degraded', detail: error };
  }
  return durationMs > slowMs
    ? { status: 'degraded', detail: `the scheduler answers slowly: ${Math.round(durationMs / 1000)} s` }
    : { status: 'up', detail: publicDetails.up };
}
