import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { coalesce } from '../../src/shell/coalesce.ts';

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

  test('aborts a run only when all of its callers have given up', async () => {
    const signals: AbortSignal[] = [];
    let finish = () => {};
    const call = coalesce(async (_requests: undefined[], runSignal) => {
      signals.push(runSignal);
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      runSignal.throwIfAborted();
      return 'done';
    });
    const [first, second] = [new AbortController(), new AbortController()];
    const calls = [call(undefined, first.signal), call(undefined, second.signal)];
    await nextTurn();
    first.abort();
    finish();
    assert.deepEqual(await Promise.all(calls), ['done', 'done']);
    const abandoned = [call(undefined, first.signal), call(undefined, second.signal)];
    await nextTurn();
    second.abort();
    finish();
    assert.deepEqual(
      (await Promise.allSettled(abandoned)).map(({ status }) => status),
      ['rejected', 'rejected'],
    );
    assert.deepEqual(
      signals.map(({ aborted }) => aborted),
      [false, true],
    );
  });

  test('serves all calls made within the interval of the last run by one run', async () => {
    const runs: number[][] = [];
    const call = coalesce(async (requests: number[]) => void runs.push(requests), 20);
    await call(1, signal);
    const second = call(2, signal);
    // A run could have started meanwhile; the timer of the interval cannot have fired.
    for (let turn = 0; turn < 100; turn++) await null;
    await Promise.all([second, call(3, signal)]);
    assert.deepEqual(runs, [[1], [2, 3]]);
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
