import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { consume } from '../../../src/http/limits/rate-limits.ts';

const policy = { name: 'test', quota: 10, windowMs: 1000 };

describe('a token bucket', () => {
  test('allows exactly the quota in one burst', () => {
    let fullAt = 0;
    for (let left = 9; left >= 0; left--) {
      const spending = consume(policy, fullAt, 5000);
      assert.deepEqual([spending.allowed, spending.remaining], [true, left]);
      fullAt = spending.fullAt;
    }
    assert.deepEqual(consume(policy, fullAt, 5000), { allowed: false, fullAt, remaining: 0, waitMs: 100 });
  });

  test('refills evenly', () => {
    assert.equal(consume(policy, 6000, 5050).allowed, false);
    assert.equal(consume(policy, 6000, 5100).allowed, true);
    assert.equal(consume(policy, 6000, 5500).remaining, 4);
    assert.equal(consume(policy, 6000, 7000).remaining, 9);
  });

  test('a rejected request does not count', () => {
    assert.equal(consume(policy, 6000, 5000).fullAt, 6000);
  });

  test('waitMs is exactly the time until the next request is allowed', () => {
    const { waitMs } = consume(policy, 6000, 5030);
    assert.equal(consume(policy, 6000, 5030 + waitMs).allowed, true);
    assert.equal(consume(policy, 6000, 5030 + waitMs - 1).allowed, false);
  });

  test('no window allows more than twice the quota, and a steady caller within the rate is never rejected', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat({ max: 300 }), { maxLength: 200 }),
        fc.integer({ min: 1, max: 50 }),
        (pauses, quota) => {
          let [now, fullAt] = [1000, 0];
          const passed: number[] = [];
          for (const pause of pauses) {
            now += pause;
            const spending = consume({ ...policy, quota }, fullAt, now);
            assert.ok(spending.remaining >= 0 && spending.remaining < quota);
            if (spending.allowed) passed.push(now);
            if (pause >= policy.windowMs / quota + 1) assert.ok(spending.allowed);
            fullAt = spending.fullAt;
          }
          for (const at of passed) {
            const inWindow = passed.filter((other) => other >= at && other < at + policy.windowMs).length;
            assert.ok(inWindow <= 2 * quota);
          }
        },
      ),
    );
  });
});
