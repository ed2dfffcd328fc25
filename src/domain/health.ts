/** `degraded`: it did not answer the last time, or answers slowly. `down`: it has not answered for a while. */
export type SystemStatus = 'up' | 'degraded' | 'down';

/** One look at a system: how long it took, and what was wrong, if it was. */
export interface Look {
  tookMs: number;
  trouble: string | null;
}

const slowMs = 5000;
const failuresUntilDown = 3;

/** How a system does, by its last looks, of which `failures` in a row failed. */
export function statusAfter({ tookMs, trouble }: Look, failures: number): { status: SystemStatus; detail: string } {
  if (trouble !== null) return { status: failures >= failuresUntilDown ? 'down' : 'degraded', detail: trouble };
  return tookMs > slowMs
    ? { status: 'degraded', detail: `it takes ${Math.round(tookMs / 1000)} s to answer` }
    : { status: 'up', detail: 'it answers' };
}
