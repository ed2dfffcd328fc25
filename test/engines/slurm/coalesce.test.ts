import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { coalesce } from '../../../src/engines/slurm/coalesce.ts';

describe('coalesce', () => {
  const { signal } = new AbortController();

  /** Records the requests of each run; a run ends when the test calls `finish`. */
  function createControlledWork() {
    const runs: { requests: number[]; finish: (error?: Error) => void }[] = [];
    const call = coalesce(
      (requests: number[]) =>
        new Promise<number>((resolve, reject) => {
          const result = runs.length;
          runs.push({ requests, finish: (error) => (error ? reject(error) : resolve(result)) });
        }),
    );
    return { runs, call: (request: number) => call(request, signal) };
  }
  const nextTurn = () => new Promise((resolve) => setImmediate(resolve));

  test('serves all calls made during a run by one following run', async () => {
    const { runs, call } = createControlledWork();
    const first = call(1);
    await nextTurn();
    const later = [call(2), call(3), call(4)];
    await nextTurn();
    assert.deepEqual(
      runs.map(({ requests }) => requests),
      [[1]],
    );
    runs[0]?.finish();
    assert.equal(await first, 0);
    await nextTurn();
    assert.deepEqual(runs[1]?.requests, [2, 3, 4]);
    runs[1]?.finish();
    assert.deepEqual(await Promise.all(later), [1, 1, 1]);
  });

  test('rejects only the calls of a failed run, and continues with the next run', async () => {
    const { runs, call } = createControlledWork();
    const failing = call(1);
    await nextTurn();
    const next = call(2);
    runs[0]?.finish(new Error('no answer'));
    await assert.rejects(failing, /no answer/);
    await nextTurn();
    runs[1]?.finish();
    assert.equal(await next, 1);
  });
});
