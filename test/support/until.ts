import { setTimeout as sleep } from 'node:timers/promises';

/** Asks again and again until there is an answer, and gives up with what was waited for in its message. */
export async function until<T>(
  what: string,
  probe: () => Promise<T | undefined> | T | undefined,
  patienceSeconds = 60,
): Promise<T> {
  const deadline = performance.now() + patienceSeconds * 1000;
  for (;;) {
    const answer = await probe();
    if (answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`waited ${patienceSeconds} s in vain: ${what}`);
    await sleep(25);
  }
}
