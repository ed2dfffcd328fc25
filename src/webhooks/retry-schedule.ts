/** How attempts to deliver to a webhook follow one another. */

/** How long to wait after so many attempts, in milliseconds; null when there have been enough. */
export function retryDelayMs(tries: number, retrySeconds: readonly number[]): number | null {
  const seconds = retrySeconds[tries - 1];
  return seconds === undefined ? null : seconds * 1000;
}

const patience = 3;
const longestPauseMs = 300_000;

/**
 * How long a receiver is left alone after so many failures in a row, whatever is waiting for it: one that is down must not
 * take the time of the others. A failure or two may be the fault of what was sent. It is never longer than what one
 * delivery waits for its next attempt.
 */
export function endpointPauseMs(failures: number, retrySeconds: readonly number[]): number {
  if (failures < patience) return 0;
  const longest = Math.min(longestPauseMs, Math.max(0, ...retrySeconds) * 1000);
  return Math.min(longest, 1000 * 2 ** (failures - patience));
}
