import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maxTimerMs, startLoop } from '../../src/workers/loop.ts';

describe('a loop', () => {
  test('runs one round at a time: who wakes it meanwhile gets the next one, and one only', async () => {
    const seen: string[] = [];
    const third = Promise.withResolvers<void>();
    const opened = Promise.withResolvers<void>();
    let rounds = 0;
    const loop = startLoop(async () => {
      const round = ++rounds;
      seen.push(`begin ${round}`);
      if (round === 1) await opened.promise;
      seen.push(`end ${round}`);
      if (round === 3) third.resolve();
      return maxTimerMs;
    });
    loop.wake();
    loop.wake();
    loop.wake(0);
    await new Promise(setImmediate);
    assert.deepEqual(seen, ['begin 1']);
    opened.resolve();
    while (rounds < 2) await new Promise(setImmediate);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(rounds, 2);
    loop.wake();
    await third.promise;
    await loop.stop();
    assert.deepEqual(seen, ['begin 1', 'end 1', 'begin 2', 'end 2', 'begin 3', 'end 3']);
  });

  test('tells a round when it was due, even when it begins later', async () => {
    const waitMs = 20;
    const rounds: { dueAt: number; begunAt: number; endedAt: number }[] = [];
    const done = Promise.withResolvers<void>();
    const startedAt = performance.now();
    const loop = startLoop(async (_signal, dueAt) => {
      const begunAt = performance.now();
      if (rounds.length === 2) done.resolve();
      // The process is busy with something else when the next one is due.
      else queueMicrotask(() => setImmediate(() => block(100)));
      rounds.push({ dueAt, begunAt, endedAt: performance.now() });
      return waitMs;
    });
    await done.promise;
    await loop.stop();
    const [first, ...later] = rounds;
    assert.ok(first !== undefined && first.dueAt >= startedAt && first.dueAt <= first.begunAt);
    for (const [index, { dueAt, begunAt }] of later.entries()) {
      const before = rounds[index];
      assert.ok(before !== undefined);
      assert.ok(dueAt >= before.endedAt + waitMs, 'it is due so long after the one before');
      assert.ok(begunAt - dueAt >= 50, 'and it was late');
    }
  });
});

function block(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
