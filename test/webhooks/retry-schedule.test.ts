import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { defaultTuning } from '../../src/composition/tuning.ts';
import { endpointPauseMs, retryDelayMs } from '../../src/webhooks/retry-schedule.ts';

const { webhookRetrySeconds: retrySeconds } = defaultTuning;

describe('webhook retry schedule', () => {
  test('retries with the given delays, which add up to about a day in production', () => {
    const delays = Array.from({ length: 12 }, (_, index) => retryDelayMs(index + 1, retrySeconds));
    assert.deepEqual(
      delays.slice(0, retrySeconds.length),
      retrySeconds.map((seconds) => seconds * 1000),
    );
    assert.deepEqual(delays.slice(retrySeconds.length), [null, null, null]);
    const total = retrySeconds.reduce((sum, seconds) => sum + seconds, 0);
    assert.ok(total >= 86_400 && total < 90_000, `${total} s`);
  });

  test('pauses an endpoint after three failures, with exponential backoff up to five minutes', () => {
    const pauses = Array.from({ length: 20 }, (_, index) => endpointPauseMs(index + 1, retrySeconds));
    assert.deepEqual(pauses.slice(0, 5), [0, 0, 1000, 2000, 4000]);
    assert.equal(pauses.at(-1), 300_000);
    assert.equal(endpointPauseMs(1000, retrySeconds), 300_000);
    assert.equal(endpointPauseMs(10, [0.1, 0.2]), 200, 'never longer than the longest retry delay');
    assert.equal(endpointPauseMs(10, []), 0);
  });
});
