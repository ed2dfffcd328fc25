export interface PollFacts {
  /** The configured bounds. */
  fastestMs: number;
  slowestMs: number;
  /** How many jobs the engine has. */
  jobs: number;
  /** How long ago something last changed, in any of them. */
  quietMs: number;
  /** Looks that failed in a row. */
  failures: number;
  /** How long the last look took. */
  tookMs: number;
}

/** A look may take this share of the time between two looks, and no more: a slow controller is left alone. */
const largestShare = 0.1;

/**
 * How long to wait until the next look at an engine: short while there is something to wait for, ever longer while
 * nothing changes, and backing off while the controller is slow or down.
 */
export function pollInterval({ fastestMs, slowestMs, jobs, quietMs, failures, tookMs }: PollFacts): number {
  if (jobs === 0) return slowestMs;
  const whileQuiet = Math.max(fastestMs, quietMs / 10);
  const whileFailing = fastestMs * 2 ** Math.min(failures, 10);
  return Math.min(slowestMs, Math.max(whileQuiet, failures > 0 ? whileFailing : 0, tookMs / largestShare));
}
