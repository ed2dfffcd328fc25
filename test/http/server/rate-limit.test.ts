import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { consume } from '../../../src/http/server/rate-limit.ts';

const policy = { name: 'test', quota: 10, windowMs: 1000 };

describe('a quota of requests', () => {
  test('can be spent at once, to the last one, and not beyond', () => {
    let fullAt = 0;
    for (let left = 9; left >= 0; left--) {
      const spending = consume(policy, fullAt, 5000);
      assert.deepEqual([spending.allowed, spending.remaining], [true, left]);
      fullAt = spending.fullAt;
    }
    assert.deepEqual(consume(policy, fullAt, 5000), { allowed: false, fullAt, remaining: 0, waitMs: 100 });
  });

  test('comes back evenly', () => {
    assert.equal(consume(policy, 6000, 5050).allowed, false);
    assert.equal(consume(policy, 6000, 5100).allowed, true);
    assert.equal(consume(policy, 6000, 5500).remaining, 4);
    assert.equal(consume(policy, 6000, 7000).remaining, 9);
  });

  test('a refusal costs nothing', () => {
    assert.equal(consume(policy, 6000, 5000).fullAt, 6000);
  });

  test('waiting for as long as it says is enough, and nothing less', () => {
    const { waitMs } = consume(policy, 6000, 5030);
    assert.equal(consume(policy, 6000, 5030 + waitMs).allowed, true);
    assert.equal(consume(policy, 6000, 5030 + waitMs - 1).allowed, false);
  });

  test('whatever the pace, no window lets more through than twice the quota, nor a steady caller be refused', () => {
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
