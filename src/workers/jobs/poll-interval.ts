export interface PollHistory {
  /** The configured limits of the interval. */
  minMs: number;
  maxMs: number;
  /** Number of jobs in the engine. */
  jobCount: number;
  /** Time since any of these jobs last changed. */
  unchangedMs: number;
  consecutiveFailures: number;
  /** Durations of the last few polls. */
  recentPollMs: readonly number[];
}

/** Polls take at most this fraction of the time, so that a slow controller is not overloaded. */
const maxPollFraction = 0.1;

/**
 * Time between the starts of two polls of an engine. The interval is short while jobs change, grows while nothing changes,
 * and backs off while the controller is slow or down. The fastest recent poll shows the speed of the controller: a
 * slower one may only show that this process was busy.
 */
export function pollInterval(history: PollHistory): number {
  const { minMs, maxMs, consecutiveFailures } = history;
  if (history.jobCount === 0) return maxMs;
  const unchangedIntervalMs = history.unchangedMs / 10;
  const slowIntervalMs = Math.min(...history.recentPollMs) / maxPollFraction;
  const failureBackoffMs = consecutiveFailures > 0 ? minMs * 2 ** Math.min(consecutiveFailures, 10) : 0;
  return Math.min(maxMs, Math.max(minMs, unchangedIntervalMs, slowIntervalMs, failureBackoffMs));
}

/** The delay after a poll is at least this fraction of the interval. */
const minDelayFraction = 0.25;

/**
 * Delay after a poll, chosen so that polls start one interval apart however late this one started and however long it took: the
 * load on the controller does not depend on how busy this process is. `sinceDueMs` is the time since the poll was due. After a
 * failure the delay is the whole interval.
 */
export function delayAfterPoll(intervalMs: number, sinceDueMs: number, consecutiveFailures: number): number {
  return consecutiveFailures > 0 ? intervalMs : Math.max(intervalMs * minDelayFraction, intervalMs - sinceDueMs);
}
