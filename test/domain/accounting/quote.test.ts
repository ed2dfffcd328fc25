import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { calculateBurnRate } from '../../../src/domain/accounting/burn-rate.ts';
import {
  type ChargeUnit,
  calculateCostSeconds,
  countRequestedUnits,
  maxAffordableRuntimeHours,
  thresholdReached,
} from '../../../src/domain/accounting/charge.ts';
import { quotaExceeded } from '../../../src/domain/accounting/shortfall.ts';

const resourceRequests = fc.record({
  nodes: fc.integer({ min: 1, max: 64 }),
  coresPerNode: fc.integer({ min: 1, max: 128 }),
});
const units = fc.constantFrom<ChargeUnit>('core', 'node', 'wall');

describe('maxAffordableRuntimeHours', () => {
  test('is the runtime that the available seconds pay for, up to the limit', () => {
    const resources = { nodes: 2, coresPerNode: 3 };
    assert.equal(maxAffordableRuntimeHours(resources, 'core', 21_600, 48), 1);
    assert.equal(maxAffordableRuntimeHours(resources, 'node', 21_600, 48), 3);
    assert.equal(maxAffordableRuntimeHours(resources, 'wall', 21_600, 48), 6);
    assert.equal(maxAffordableRuntimeHours(resources, 'wall', 21_600, 0.5), 0.5);
    assert.equal(maxAffordableRuntimeHours(resources, 'core', 5, 48), 0);
    assert.equal(maxAffordableRuntimeHours(resources, 'core', -100, 48), 0);
  });

  test('fits, but one second more does not', () => {
    fc.assert(
      fc.property(resourceRequests, units, fc.nat({ max: 2_000_000_000 }), (resources, unit, available) => {
        const hours = maxAffordableRuntimeHours(resources, unit, available, Number.POSITIVE_INFINITY);
        if (hours === 0) return assert.ok(available < countRequestedUnits(resources, unit));
        assert.ok(calculateCostSeconds(resources, hours, unit) <= available);
        assert.ok(calculateCostSeconds(resources, hours + 1 / 3600, unit) > available);
      }),
      { numRuns: 5000 },
    );
  });

  test('fits when it is taken from the quota_exceeded error', () => {
    fc.assert(
      fc.property(resourceRequests, fc.integer({ min: 8192, max: 2_000_000_000 }), (resources, available) => {
        const maxHours = maxAffordableRuntimeHours(resources, 'core', available, 48);
        const { details } = quotaExceeded(
          { resource: 'time', account: 'cap', needed: available + 1, available },
          maxHours,
          'core',
        );
        const requestedHours = JSON.parse(JSON.stringify(details)).longest_runtime;
        assert.ok(calculateCostSeconds(resources, requestedHours, 'core') <= available);
      }),
    );
  });
});

describe('quotaExceeded', () => {
  test('reports time in the unit of the system, with a runtime that would fit', () => {
    const error = quotaExceeded({ resource: 'time', account: 'pool', needed: 7200, available: 3600 }, 0.5, 'core');
    assert.equal(error.code, 'quota_exceeded');
    assert.match(
      error.message,
      /needs 2 core-h of time.*project's pool has only 1 core-h available: 1 core-h too little.*up to 0\.5 h would fit/,
    );
    assert.deepEqual(error.details, {
      resource: 'time',
      account: 'pool',
      unit: 'seconds',
      needed: 7200,
      available: 3600,
      longest_runtime: 0.5,
    });
  });

  test('reports space, with advice', () => {
    const error = quotaExceeded({ resource: 'space', account: 'cap', needed: 1_500, available: 1 }, 1, 'core');
    assert.match(
      error.message,
      /1\.5 kB of space, but your own quota has only 1 B available: 1\.5 kB too little\. Ask for less/,
    );
    assert.equal(error.details.unit, 'KB');
  });

  test('has short amounts in its message, and exact ones in its details', () => {
    const shortfall = { resource: 'time', account: 'cap', needed: 1_415_577_600, available: 18_274_321 } as const;
    const { message, details } = quotaExceeded(shortfall, 0.6102777777777778, 'core');
    assert.match(message, /needs 393,000 core-h .* only 5,080 core-h available: 388,000 core-h .* up to 0\.61 h /);
    assert.deepEqual(
      [details.needed, details.available, details.longest_runtime],
      [1_415_577_600, 18_274_321, 0.6102777777777778],
    );
    // The two amounts look the same: the difference says why the job is refused.
    const close = quotaExceeded({ ...shortfall, needed: 18_274_322 }, 0, 'core');
    assert.match(close.message, /needs 5,080 core-h .* only 5,080 core-h available: 1 core-s too little/);
  });

  test('gives advice if no runtime would fit', () => {
    const error = quotaExceeded({ resource: 'time', account: 'cap', needed: 10, available: 0 }, 0, 'core');
    assert.match(error.message, /Ask for less, or wait/);
  });
});

describe('thresholdReached', () => {
  test('counts usage, but not holds', () => {
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

  test('never decreases as usage grows', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat(), fc.nat(), (granted, posted, more) => {
        const at = (used: number) => thresholdReached({ granted, held: 0, posted: used, overrun: 0 });
        assert.ok(at(posted + more) >= at(posted));
      }),
    );
  });
});

describe('calculateBurnRate', () => {
  const msPerDay = 86_400_000;

  test('forecasts when the balance reaches zero', () => {
    assert.deepEqual(calculateBurnRate(300, 0, 30 * msPerDay, 100), { perDay: 10, runsOutAt: 40 * msPerDay });
    assert.deepEqual(calculateBurnRate(300, 0, 30 * msPerDay, 0), { perDay: 10, runsOutAt: 30 * msPerDay });
    assert.deepEqual(calculateBurnRate(300, 0, 30 * msPerDay, -5), { perDay: 10, runsOutAt: 30 * msPerDay });
  });

  test('averages over at least one day, and forecasts nothing without use or beyond a century', () => {
    assert.equal(calculateBurnRate(100, 0, 1000, 100).perDay, 100);
    assert.deepEqual(calculateBurnRate(0, 0, 30 * msPerDay, 100), { perDay: 0, runsOutAt: null });
    assert.equal(calculateBurnRate(1, 0, 30 * msPerDay, 1_000_000_000).runsOutAt, null);
  });

  test('is finite, and never forecasts a time in the past', () => {
    fc.assert(
      fc.property(fc.nat(), fc.nat({ max: 4e12 }), fc.nat({ max: 4e12 }), fc.integer(), (used, since, span, left) => {
        const { perDay, runsOutAt } = calculateBurnRate(used, since, since + span, left);
        assert.ok(Number.isFinite(perDay) && perDay >= 0);
        assert.ok(runsOutAt === null || (Number.isSafeInteger(runsOutAt) && runsOutAt >= since + span));
      }),
    );
  });
});
