/** `degraded`: it did not answer the last time, or answers slowly. `down`: it has not answered for a while. */
export type SystemStatus = 'up' | 'degraded' | 'down';

/** One look at a system: how long it took, and what was wrong, if it was. */
export interface PollResult {
  durationMs: number;
  error: string | null;
}

const slowMs = 5000;
const failuresUntilDown = 2;
const failingUntilDownMs = 15_000;

/** How a system does, by its last look, and by how many in a row have failed and for how long. */
export function statusAfterPoll(
  { durationMs: tookMs, error: trouble }: PollResult,
  { failures, failingMs }: { failures: number; failingMs: number },
): { status: SystemStatus; detail: string } {
  if (trouble !== null) {
    const isDown = failures >= failuresUntilDown && failingMs >= failingUntilDownMs;
    return { status: isDown ? 'down' : 'degraded', detail: trouble };
  }
  return tookMs > slowMs
    ? { status: 'degraded', detail: `it takes ${Math.round(tookMs / 1000)} s to answer` }
    : { status: 'up', detail: 'it answers' };
}
