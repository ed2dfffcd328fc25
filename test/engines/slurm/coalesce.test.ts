import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { coalesce } from '../../../src/engines/slurm/coalesce.ts';

describe('work that is gathered', () => {
  const { signal } = new AbortController();

  /** Work that ends when it is told to, and what it was asked for each time. */
  function controlled() {
    const runs: { asked: number[]; end: (error?: Error) => void }[] = [];
    const ask = coalesce(
      (asked: number[]) =>
        new Promise<number>((resolve, reject) => {
          const answer = runs.length;
          runs.push({ asked, end: (error) => (error ? reject(error) : resolve(answer)) });
        }),
    );
    return { runs, ask: (n: number) => ask(n, signal) };
  }
  const settled = () => new Promise((resolve) => setImmediate(resolve));

  test('who asks while it is under way is served by the next run, together with all others', async () => {
    const { runs, ask } = controlled();
    const first = ask(1);
    await settled();
    const others = [ask(2), ask(3), ask(4)];
    await settled();
    assert.deepEqual(
      runs.map(({ asked }) => asked),
      [[1]],
    );
    runs[0]?.end();
    assert.equal(await first, 0);
    await settled();
    assert.deepEqual(runs[1]?.asked, [2, 3, 4]);
    runs[1]?.end();
    assert.deepEqual(await Promise.all(others), [1, 1, 1]);
  });

  test('a failure is told to those who asked for it, and the next run goes on', async () => {
    const { runs, ask } = controlled();
    const failing = ask(1);
    await settled();
    const next = ask(2);
    runs[0]?.end(new Error('no answer'));
    await assert.rejects(failing, /no answer/);
    await settled();
    runs[1]?.end();
    assert.equal(await next, 1);
  });
});
