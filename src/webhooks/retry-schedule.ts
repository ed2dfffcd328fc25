/** Delay before the next attempt of a delivery, in milliseconds; null if no attempts are left. */
export function retryDelayMs(attempts: number, retrySeconds: readonly number[]): number | null {
  const seconds = retrySeconds[attempts - 1];
  return seconds === undefined ? null : seconds * 1000;
}

/** One or two failures may be caused by a single message, so they do not pause the endpoint. */
const failuresUntilPause = 3;
const maxPauseMs = 300_000;

/**
 * Time for which an endpoint gets no deliveries after consecutive failures, like an open circuit breaker: an endpoint that is
 * down must not delay deliveries to the others. The pause grows exponentially, but is never longer than the longest
 * retry delay.
 */
export function endpointPauseMs(consecutiveFailures: number, retrySeconds: readonly number[]): number {
  if (consecutiveFailures < failuresUntilPause) return 0;
  const limitMs = Math.min(maxPauseMs, Math.max(0, ...retrySeconds) * 1000);
  return Math.min(limitMs, 1000 * 2 ** (consecutiveFailures - failuresUntilPause));
}
