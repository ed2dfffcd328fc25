export interface PollInput {
  /** The configured bounds. */
  fastestMs: number;
  slowestMs: number;
  /** How many jobs the engine has. */
  jobs: number;
  /** How long ago something last changed, in any of them. */
  quietMs: number;
  /** Looks that failed in a row. */
  failures: number;
  /** How long each of the last few looks took. */
  tookMs: readonly number[];
}

/** A look may take this share of the time between two looks, and no more: a slow controller is left alone. */
const largestShare = 0.1;

/**
 * How far apart two looks at an engine are to begin: close while there is something to wait for, ever further while
 * nothing changes, and backing off while the controller is slow or down. A controller is as slow as the quickest of the
 * last looks: one that took longer says as much of how busy this process was.
 */
export function pollInterval({ fastestMs, slowestMs, jobs, quietMs, failures, tookMs }: PollInput): number {
  if (jobs === 0) return slowestMs;
  const whileQuiet = Math.max(fastestMs, quietMs / 10);
  const whileSlow = Math.min(...tookMs) / largestShare;
  const whileFailing = fastestMs * 2 ** Math.min(failures, 10);
  return Math.min(slowestMs, Math.max(whileQuiet, failures > 0 ? whileFailing : 0, whileSlow));
}

/** What of the time between two looks is a pause in any case. */
const smallestPause = 0.25;

/**
 * How long to wait after a look, so that the next begins as far from it as it should, however late this one began and
 * however long it took: how often a controller is asked does not depend on how busy this process is. What cannot be made
 * up for by one pause is owed to the next, one interval at the most: a long delay brings no looks in a row. A controller
 * that has failed is left alone for the whole time, and owed nothing.
 */
export function delayAfterPoll(
  intervalMs: number,
  { sinceDueMs, owedMs, failures }: { sinceDueMs: number; owedMs: number; failures: number },
): { pauseMs: number; owedMs: number } {
  if (failures > 0) return { pauseMs: intervalMs, owedMs: 0 };
  const behindMs = sinceDueMs + owedMs;
  const pauseMs = Math.max(intervalMs * smallestPause, intervalMs - behindMs);
  return { pauseMs, owedMs: Math.min(intervalMs, pauseMs + behindMs - intervalMs) };
}
