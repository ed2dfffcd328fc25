import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type ChargeUnit,
  calculateCostSeconds,
  countRequestedUnits,
  toTimeLimitSeconds,
} from '../../../src/domain/accounting/charge.ts';

const units: ChargeUnit[] = ['core', 'node', 'wall'];

/** Runtimes with up to four decimals, each equal to `numerator / 10000`. */
const hours = (maxHours: number) =>
  fc.integer({ min: 1, max: maxHours * 10_000 }).map((numerator) => ({ numerator, runtimeHours: numerator / 10_000 }));

/** Calculates `numerator / 10000` hours times `unitCount` in seconds, rounded up, in exact integer arithmetic. */
function exactSeconds(numerator: number, unitCount: number): number {
  return Number((BigInt(numerator) * 3600n * BigInt(unitCount) + 9999n) / 10_000n);
}

describe('countRequestedUnits', () => {
  test('counts cores, nodes, or 1 for wall-clock time', () => {
    const allocation = { nodes: 4, coresPerNode: 16 };
    assert.deepEqual(
      units.map((unit) => countRequestedUnits(allocation, unit)),
      [64, 4, 1],
    );
  });
});

describe('calculateCostSeconds', () => {
  test('calculates typical requests', () => {
    const cases: [nodes: number, cores: number, hours: number, unit: ChargeUnit, seconds: number][] = [
      [1, 1, 1, 'core', 3600],
      [2, 6, 2, 'core', 86_400],
      [2, 6, 2, 'node', 14_400],
      [2, 6, 2, 'wall', 7200],
      [1, 1, 0.1, 'core', 360],
      [1, 3, 0.1, 'core', 1080],
      [3, 7, 0.1, 'core', 7560],
      [1, 1, 0.7, 'core', 2520],
      [1, 1, 1.1, 'core', 3960],
      [1, 1, 0.29, 'wall', 1044],
      [64, 128, 48, 'core', 1_415_577_600],
      [1, 1, 1 / 3, 'wall', 1200],
      [1, 1, 0.0001, 'core', 1],
      [1, 10, 0.0001, 'core', 4],
    ];
    for (const [nodes, coresPerNode, runtime, unit, seconds] of cases) {
      const description = `${nodes} × ${coresPerNode} × ${runtime} h by ${unit}`;
      assert.equal(calculateCostSeconds({ nodes, coresPerNode }, runtime, unit), seconds, description);
    }
  });

  test('is exact to the second within the shipped limits', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 1, max: 128 }),
        hours(48),
        fc.constantFrom(...units),
        (nodes, coresPerNode, { numerator, runtimeHours }, unit) => {
          const allocation = { nodes, coresPerNode };
          assert.equal(
            calculateCostSeconds(allocation, runtimeHours, unit),
            exactSeconds(numerator, countRequestedUnits(allocation, unit)),
          );
        },
      ),
      { numRuns: 20_000 },
    );
  });

  test('is exact to the second on very large systems', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 512 }),
        hours(1000),
        (nodes, coresPerNode, { numerator, runtimeHours }) => {
          const cost = calculateCostSeconds({ nodes, coresPerNode }, runtimeHours, 'core');
          assert.equal(cost, exactSeconds(numerator, nodes * coresPerNode));
        },
      ),
      { numRuns: 20_000 },
    );
  });

  test('returns a whole number of at least one second', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 1, max: 128 }),
        fc.double({ min: Number.MIN_VALUE, max: 48, noNaN: true }),
        fc.constantFrom(...units),
        (nodes, coresPerNode, runtime, unit) => {
          const cost = calculateCostSeconds({ nodes, coresPerNode }, runtime, unit);
          assert.ok(Number.isSafeInteger(cost) && cost >= 1, `${cost} s for ${runtime} h`);
        },
      ),
    );
  });

  test('never decreases when a job requests more', () => {
    const runtime = fc.double({ min: 0.001, max: 48, noNaN: true });
    fc.assert(
      fc.property(runtime, runtime, fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 128 }), (a, b, n, c) => {
        const [less, more] = [Math.min(a, b), Math.max(a, b)];
        const cost = (requestedHours: number, nodes: number) =>
          calculateCostSeconds({ nodes, coresPerNode: c }, requestedHours, 'core');
        assert.ok(cost(less, n) <= cost(more, n));
        assert.ok(cost(less, n) <= cost(less, n + 1));
      }),
    );
  });
});

describe('toTimeLimitSeconds', () => {
  test('is exact to the second', () => {
    assert.deepEqual([0.1, 0.7, 1.1, 0.5, 48, 1 / 3].map(toTimeLimitSeconds), [360, 2520, 3960, 1800, 172_800, 1200]);
    fc.assert(
      fc.property(hours(10_000), ({ numerator, runtimeHours }) => {
        assert.equal(toTimeLimitSeconds(runtimeHours), exactSeconds(numerator, 1));
      }),
    );
  });

  test('is at least one second', () => {
    for (const runtime of [1e-3 / 3600, 1e-7, 1e-10, 1e-300, Number.MIN_VALUE]) {
      assert.equal(toTimeLimitSeconds(runtime), 1, `${runtime} h`);
    }
  });
});
