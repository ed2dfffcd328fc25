import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { calculateBurnRate } from '../../../src/domain/accounting/burn-rate.ts';
import {
  type ChargeUnit,
  calculateCostSeconds,
  maxAffordableRuntimeHours,
  requestedUnits,
} from '../../../src/domain/accounting/price.ts';
import { quotaExceeded } from '../../../src/domain/accounting/shortfall.ts';
import { thresholdReached } from '../../../src/domain/accounting/threshold.ts';

const allocations = fc.record({
  nodes: fc.integer({ min: 1, max: 64 }),
  coresPerNode: fc.integer({ min: 1, max: 128 }),
});
const units = fc.constantFrom<ChargeUnit>('core', 'node', 'wall');

describe('the longest runtime that would fit', () => {
  test('is what the seconds pay for, up to the limit', () => {
    const allocation = { nodes: 2, coresPerNode: 3 };
    assert.equal(maxAffordableRuntimeHours(allocation, 'core', 21_600, 48), 1);
    assert.equal(maxAffordableRuntimeHours(allocation, 'node', 21_600, 48), 3);
    assert.equal(maxAffordableRuntimeHours(allocation, 'wall', 21_600, 48), 6);
    assert.equal(maxAffordableRuntimeHours(allocation, 'wall', 21_600, 0.5), 0.5);
    assert.equal(maxAffordableRuntimeHours(allocation, 'core', 5, 48), 0);
    assert.equal(maxAffordableRuntimeHours(allocation, 'core', -100, 48), 0);
  });

  test('fits, and a second more does not', () => {
    fc.assert(
      fc.property(allocations, units, fc.nat({ max: 2_000_000_000 }), (allocation, unit, available) => {
        const hours = maxAffordableRuntimeHours(allocation, unit, available, Number.POSITIVE_INFINITY);
        if (hours === 0) return assert.ok(available < requestedUnits(allocation, unit));
        assert.ok(calculateCostSeconds(allocation, hours, unit) <= available);
        assert.ok(calculateCostSeconds(allocation, hours + 1 / 3600, unit) > available);
      }),
      { numRuns: 5000 },
    );
  });

  test('fits when it is read from the refusal and asked for', () => {
    fc.assert(
      fc.property(allocations, fc.integer({ min: 8192, max: 2_000_000_000 }), (allocation, available) => {
        const told = maxAffordableRuntimeHours(allocation, 'core', available, 48);
        const { details } = quotaExceeded({ resource: 'time', account: 'cap', needed: available + 1, available }, told);
        const asked = JSON.parse(JSON.stringify(details)).longest_runtime;
        assert.ok(calculateCostSeconds(allocation, asked, 'core') <= available);
      }),
    );
  });
});

describe('a refusal for lack of quota', () => {
  test('tells of time in seconds, and of a runtime that would fit', () => {
    const refusal = quotaExceeded({ resource: 'time', account: 'pool', needed: 7200, available: 3600 }, 0.5);
    assert.equal(refusal.code, 'quota_exceeded');
    assert.match(refusal.message, /7200 seconds of time.*project's pool has only 3600.*up to 0\.5 hours would fit/);
    assert.deepEqual(refusal.details, {
      resource: 'time',
      account: 'pool',
      unit: 'seconds',
      needed: 7200,
      available: 3600,
      longest_runtime: 0.5,
    });
  });

  test('tells of space in KB, and what to do', () => {
    const refusal = quotaExceeded({ resource: 'space', account: 'cap', needed: 1_500, available: 1 }, 1);
    assert.match(refusal.message, /1\.5 KB of space, but your own quota has only 0\.001 available\. Ask for less/);
    assert.equal(refusal.details.unit, 'KB');
  });

  test('tells what to do where nothing would fit', () => {
    const refusal = quotaExceeded({ resource: 'time', account: 'cap', needed: 10, available: 0 }, 0);
    assert.match(refusal.message, /Ask for less, or wait/);
  });
});

describe('a threshold', () => {
  test('is reached by use, and not by holds', () => {
    const account = { granted: 1000, held: 900, posted: 0, overrun: 0 };
    assert.equal(thresholdReached(account), 0);
    assert.equal(thresholdReached({ ...account, posted: 799 }), 0);
    assert.equal(thresholdReached({ ...account, posted: 800 }), 80);
    assert.equal(thresholdReached({ ...account, posted: 999 }), 80);
    assert.equal(thresholdReached({ ...account, posted: 999, overrun: 1 }), 100);
    assert.equal(thresholdReached({ ...account, posted: 1000, overrun: 5000 }), 100);
    assert.equal(thresholdReached({ granted: 0, held: 0, posted: 0, overrun: 0 }), 0);
    assert.equal(thresholdReached({ granted: 0, held: 0, posted: 0, overrun: 1 }), 100);
  });

  test('never falls while more is used', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.nat(), (granted, posted, more) => {
        const at = (used: number) => thresholdReached({ granted, held: 0, posted: used, overrun: 0 });
        assert.ok(at(posted + more) >= at(posted));
      }),
    );
  });
});

describe('the rate of use', () => {
  const day = 86_400_000;

  test('tells when what is left runs out', () => {
    assert.deepEqual(calculateBurnRate(300, 0, 30 * day, 100), { perDay: 10, runsOutAt: 40 * day });
    assert.deepEqual(calculateBurnRate(300, 0, 30 * day, 0), { perDay: 10, runsOutAt: 30 * day });
    assert.deepEqual(calculateBurnRate(300, 0, 30 * day, -5), { perDay: 10, runsOutAt: 30 * day });
  });

  test('takes a day at the least, and knows nothing to run out at no use', () => {
    assert.equal(calculateBurnRate(100, 0, 1000, 100).perDay, 100);
    assert.deepEqual(calculateBurnRate(0, 0, 30 * day, 100), { perDay: 0, runsOutAt: null });
    assert.equal(calculateBurnRate(1, 0, 30 * day, 1_000_000_000).runsOutAt, null);
  });

  test('is finite and never in the past, whatever was used', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 4e12 }), fc.nat({ max: 4e12 }), fc.integer(), (used, since, span, left) => {
        const { perDay, runsOutAt } = calculateBurnRate(used, since, since + span, left);
        assert.ok(Number.isFinite(perDay) && perDay >= 0);
        assert.ok(runsOutAt === null || (Number.isSafeInteger(runsOutAt) && runsOutAt >= since + span));
      }),
    );
  });
});
