import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type ChargeUnit,
  calculateCostSeconds,
  requestedUnits,
  toTimeLimitSeconds,
} from '../../../src/domain/accounting/price.ts';

const units: ChargeUnit[] = ['core', 'node', 'wall'];

/** Hours as people write them, with up to four digits after the point; exactly `numerator / 10000`. */
const hours = (most: number) =>
  fc.integer({ min: 1, max: most * 10_000 }).map((numerator) => ({ numerator, written: numerator / 10_000 }));

/** What so many ten-thousandths of an hour are in seconds, times the units, rounded up; without any fractions. */
function exactSeconds(numerator: number, charged: number): number {
  return Number((BigInt(numerator) * 3600n * BigInt(charged) + 9999n) / 10_000n);
}

describe('units', () => {
  test('a core-second, a node-second and a second of wall-clock time', () => {
    const allocation = { nodes: 4, coresPerNode: 16 };
    assert.deepEqual(
      units.map((unit) => requestedUnits(allocation, unit)),
      [64, 4, 1],
    );
  });
});

describe('cost', () => {
  test('of what people ask for', () => {
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
      const what = `${nodes} × ${coresPerNode} × ${runtime} h by ${unit}`;
      assert.equal(calculateCostSeconds({ nodes, coresPerNode }, runtime, unit), seconds, what);
    }
  });

  test('is exact to the second within the limits that Bursar is shipped with', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 64 }),
        fc.integer({ min: 1, max: 128 }),
        hours(48),
        fc.constantFrom(...units),
        (nodes, coresPerNode, { numerator, written }, unit) => {
          const allocation = { nodes, coresPerNode };
          assert.equal(
            calculateCostSeconds(allocation, written, unit),
            exactSeconds(numerator, requestedUnits(allocation, unit)),
          );
        },
      ),
      { numRuns: 20_000 },
    );
  });

  test('is exact to the second on the largest machines that there are', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20_000 }),
        fc.integer({ min: 1, max: 512 }),
        hours(1000),
        (nodes, coresPerNode, { numerator, written }) => {
          const cost = calculateCostSeconds({ nodes, coresPerNode }, written, 'core');
          assert.equal(cost, exactSeconds(numerator, nodes * coresPerNode));
        },
      ),
      { numRuns: 20_000 },
    );
  });

  test('is a whole number of seconds, and never nothing', () => {
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

  test('never falls when more is asked for', () => {
    const runtime = fc.double({ min: 0.001, max: 48, noNaN: true });
    fc.assert(
      fc.property(runtime, runtime, fc.integer({ min: 1, max: 64 }), fc.integer({ min: 1, max: 128 }), (a, b, n, c) => {
        const [less, more] = [Math.min(a, b), Math.max(a, b)];
        const cost = (hoursAsked: number, nodes: number) =>
          calculateCostSeconds({ nodes, coresPerNode: c }, hoursAsked, 'core');
        assert.ok(cost(less, n) <= cost(more, n));
        assert.ok(cost(less, n) <= cost(less, n + 1));
      }),
    );
  });
});

describe('the time limit', () => {
  test('is exact to the second', () => {
    assert.deepEqual([0.1, 0.7, 1.1, 0.5, 48, 1 / 3].map(toTimeLimitSeconds), [360, 2520, 3960, 1800, 172_800, 1200]);
    fc.assert(
      fc.property(hours(10_000), ({ numerator, written }) => {
        assert.equal(toTimeLimitSeconds(written), exactSeconds(numerator, 1));
      }),
    );
  });

  test('of next to nothing is a second', () => {
    for (const runtime of [1e-3 / 3600, 1e-7, 1e-10, 1e-300, Number.MIN_VALUE]) {
      assert.equal(toTimeLimitSeconds(runtime), 1, `${runtime} h`);
    }
  });
});
