import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { maxTimerMs, startLoop } from '../../src/workers/loop.ts';

describe('startLoop', () => {
  test('runs one iteration at a time, and one more for any number of wake calls during it', async () => {
    const log: string[] = [];
    const thirdEnded = Promise.withResolvers<void>();
    const firstMayEnd = Promise.withResolvers<void>();
    let iterations = 0;
    const loop = startLoop(async () => {
      const iteration = ++iterations;
      log.push(`begin ${iteration}`);
      if (iteration === 1) await firstMayEnd.promise;
      log.push(`end ${iteration}`);
      if (iteration === 3) thirdEnded.resolve();
      return maxTimerMs;
    });
    loop.wake();
    loop.wake();
    loop.wake(0);
    await new Promise(setImmediate);
    assert.deepEqual(log, ['begin 1']);
    firstMayEnd.resolve();
    while (iterations < 2) await new Promise(setImmediate);
    await new Promise((resolve) => setTimeout(resolve, 20));
    assert.equal(iterations, 2);
    loop.wake();
    await thirdEnded.promise;
    await loop.stop();
    assert.deepEqual(log, ['begin 1', 'end 1', 'begin 2', 'end 2', 'begin 3', 'end 3']);
  });

  test('passes the due time to an iteration, even if it starts later', async () => {
    const delayMs = 20;
    /** Blocks the event loop from the moment at which the loop has set the timer of the next iteration until after it is due. */
    const blockAfterReturn = async () => {
      for (let tick = 0; tick < 10; tick++) await null;
      blockEventLoop(100);
    };
    const iterations: { dueAt: number; startedAt: number; endedAt: number }[] = [];
    const done = Promise.withResolvers<void>();
    const loopStartedAt = performance.now();
    const loop = startLoop(async (_signal, dueAt) => {
      const startedAt = performance.now();
      if (iterations.length === 2) done.resolve();
      else void blockAfterReturn();
      iterations.push({ dueAt, startedAt, endedAt: performance.now() });
      return delayMs;
    });
    await done.promise;
    await loop.stop();
    const [first, ...later] = iterations;
    assert.ok(first !== undefined && first.dueAt >= loopStartedAt && first.dueAt <= first.startedAt);
    for (const [index, { dueAt, startedAt }] of later.entries()) {
      const previous = iterations[index];
      assert.ok(previous !== undefined);
      assert.ok(dueAt >= previous.endedAt + delayMs, 'due after the delay that the previous iteration returned');
      assert.ok(startedAt - dueAt >= 50, 'started late');
    }
  });
});

function blockEventLoop(ms: number): void {
  const until = performance.now() + ms;
  while (performance.now() < until);
}
