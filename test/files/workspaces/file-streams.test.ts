import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { minimumRate } from '../../../src/files/workspaces/file-streams.ts';

/** A stream that requires 50 kB/s, and functions that let time pass. */
function openStream(t: TestContext) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const rate = { bytesPerSecond: 50_000, maxPauseMs: 40_000, isRequired: () => true };
  const stream = minimumRate(rate, 'too slow').on('error', () => undefined);
  t.after(async () => {
    // The next test must not begin before the stream has cleared its timer.
    stream.destroy();
    await nextTurn();
  });
  return {
    stream,
    pass(seconds: number) {
      for (let second = 0; second < seconds; second += 1) {
        now += 1000;
        t.mock.timers.tick(1000);
      }
    },
    /** The reader takes all that waits, and the same amount waits again. */
    async takeBurst(bytes: number) {
      stream.read();
      stream.write(Buffer.alloc(bytes));
      await nextTurn();
    },
  };
}

test('a steady reader whose bytes are taken in bursts is not too slow', async (t) => {
  const { stream, pass, takeBurst } = openStream(t);
  for (let burst = 0; burst < 10; burst += 1) {
    await takeBurst(1_400_000);
    pass(11);
    assert.equal(stream.errored, null);
  }
});

test('a reader that takes nothing, or too little, is too slow', async (t) => {
  const { stream, pass, takeBurst } = openStream(t);
  await takeBurst(5_000_000);
  pass(39);
  assert.equal(stream.errored, null);
  for (let burst = 0; burst < 10 && !stream.errored; burst += 1) {
    await takeBurst(100_000);
    pass(11);
  }
  assert.equal((stream.errored as { code?: string } | null)?.code, 'unavailable');
});
