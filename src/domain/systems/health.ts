/** `degraded`: the last poll failed or was slow. `down`: several polls in a row have failed. */
export type SystemStatus = 'up' | 'degraded' | 'down';

export interface PollResult {
  durationMs: number;
  /** Null if the poll succeeded. */
  error: string | null;
}

const slowMs = 5000;
const minFailuresForDown = 2;
const minFailingMsForDown = 15_000;

/** `failures` counts the failed polls in a row, the last one included; `failingMs` is the time since the last success. */
export function statusAfterPoll(
  { durationMs, error }: PollResult,
  { failures, failingMs }: { failures: number; failingMs: number },
): { status: SystemStatus; detail: string } {
  if (error !== null) {
    const isDown = failures >= minFailuresForDown && failingMs >= minFailingMsForDown;
    return { status: isDown ? 'down' : 'degraded', detail: error };
  }
  return durationMs > slowMs
    ? { status: 'degraded', detail: `the scheduler answers slowly: ${Math.round(durationMs / 1000)} s` }
    : { status: 'up', detail: 'the scheduler answers' };
}
