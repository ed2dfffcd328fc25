import { setTimeout as sleep } from 'node:timers/promises';

/** Polls until the result is not undefined. After the timeout, throws an error that names the expected condition. */
export async function until<T>(
  condition: string,
  probe: () => Promise<T | undefined> | T | undefined,
  timeoutSeconds = 60,
): Promise<T> {
  const deadline = performance.now() + timeoutSeconds * 1000;
  for (;;) {
    const result = await probe();
    if (result !== undefined) return result;
    if (performance.now() > deadline) throw new Error(`timeout after ${timeoutSeconds} s: ${condition}`);
    await sleep(25);
  }
}
