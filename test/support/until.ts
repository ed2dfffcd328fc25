import { setTimeout as sleep } from 'node:timers/promises';

/**
 * Polls until the result is not undefined. After the timeout, throws an error that names the expected condition. The longer it
 * waits, the less often it polls: many jobs that wait in a queue would otherwise get less CPU time than their polls.
 */
export async function until<T>(
  condition: string,
  probe: () => Promise<T | undefined> | T | undefined,
  timeoutSeconds = 180,
): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    const result = await probe();
    if (result !== undefined) return result;
    const waitedMs = performance.now() - startedAt;
    if (waitedMs > timeoutSeconds * 1000) throw new Error(`timeout after ${timeoutSeconds} s: ${condition}`);
    await sleep(Math.min(Math.max(25, waitedMs / 20), 500));
  }
}
