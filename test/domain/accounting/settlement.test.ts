import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type AccountBalance,
  availableBalance,
  calculateSettlement,
  remainingQuota,
  splitUsage,
  zeroMovement,
} from '../../../src/domain/accounting/charge.ts';
import type { JobEnd, Outcome } from '../../../src/domain/jobs/job.ts';

const amount = fc.nat({ max: 1_000_000_000 });
const accounts: fc.Arbitrary<AccountBalance> = fc.record({
  granted: amount,
  held: amount,
  posted: amount,
  overrun: amount,
});

function add(account: AccountBalance, change: Partial<AccountBalance>): AccountBalance {
  const { granted = 0, held = 0, posted = 0, overrun = 0 } = change;
  return {
    granted: account.granted + granted,
    held: account.held + held,
    posted: account.posted + posted,
    overrun: account.overrun + overrun,
  };
}

describe('availableBalance and remainingQuota', () => {
  test('availableBalance subtracts held, posted and overrun from granted', () => {
    assert.equal(availableBalance({ granted: 100, held: 20, posted: 30, overrun: 0 }), 50);
    assert.equal(availableBalance({ granted: 100, held: 0, posted: 100, overrun: 7 }), -7);
    assert.equal(availableBalance(zeroMovement), 0);
  });

  test('remaining is the smaller of pool and cap, and never negative', () => {
    const pool = { granted: 100, held: 0, posted: 0, overrun: 0 };
    const cap = { granted: 60, held: 20, posted: 0, overrun: 0 };
    assert.equal(remainingQuota(pool, cap), 40);
    assert.equal(remainingQuota(cap, pool), 40);
    fc.assert(
      fc.property(accounts, accounts, (first, second) => {
        const amountLeft = remainingQuota(first, second);
        assert.ok(amountLeft >= 0 && !Object.is(amountLeft, -0));
        assert.ok(
          amountLeft === 0 || (amountLeft <= availableBalance(first) && amountLeft <= availableBalance(second)),
        );
        assert.equal(amountLeft, remainingQuota(second, first));
      }),
    );
  });
});

describe('splitUsage', () => {
  test('posts the covered part and records the rest as overrun', () => {
    const account = { granted: 100, held: 0, posted: 40, overrun: 0 };
    assert.deepEqual(splitUsage(account, 60), { posted: 60, overrun: 0 });
    assert.deepEqual(splitUsage(account, 61), { posted: 60, overrun: 1 });
    assert.deepEqual(splitUsage(account, 0), { posted: 0, overrun: 0 });
    assert.deepEqual(splitUsage({ ...account, overrun: 70 }, 5), { posted: 0, overrun: 5 });
  });

  test('records usage in full, and never posts more than is available', () => {
    fc.assert(
      fc.property(accounts, amount, (account, used) => {
        const { posted, overrun } = splitUsage(account, used);
        assert.equal(posted + overrun, used);
        assert.ok(posted >= 0 && overrun >= 0);
        assert.ok(posted <= Math.max(0, availableBalance(account)));
        assert.ok(overrun === 0 || posted === Math.max(0, availableBalance(account)));
      }),
    );
  });

  test('never posts more than the grant, for any sequence of holds and settlements', () => {
    const jobArbitrary = fc.record({
      requested: fc.nat({ max: 1000 }),
      used: fc.nat({ max: 1500 }),
      isLeftRunning: fc.boolean(),
    });
    fc.assert(
      fc.property(fc.nat({ max: 5000 }), fc.array(jobArbitrary, { maxLength: 30 }), (granted, jobs) => {
        let account: AccountBalance = { ...zeroMovement, granted };
        const running: { requested: number; used: number }[] = [];
        const settle = ({ requested, used }: { requested: number; used: number }) => {
          account = add(account, { held: -requested });
          account = add(account, splitUsage(account, used));
        };
        let totalUsed = 0;
        for (const { requested, used, isLeftRunning } of jobs) {
          if (availableBalance(account) < requested) continue;
          account = add(account, { held: requested });
          totalUsed += used;
          if (isLeftRunning) running.push({ requested, used });
          else settle({ requested, used });
          assert.ok(account.posted + account.held - account.overrun <= granted);
        }
        for (const job of running) settle(job);
        assert.equal(account.held, 0);
        assert.equal(account.posted + account.overrun, totalUsed);
        assert.ok(account.posted <= granted);
      }),
    );
  });
});

describe('calculateSettlement', () => {
  const ran: JobEnd = {
    outcome: 'succeeded',
    reason: '',
    exitCode: 0,
    startedAt: 1000,
    endedAt: 11_000,
    elapsedSeconds: 10,
  };
  const request = { requestedUnits: 12, runtimeSeconds: 3600 };
  const charged: Outcome[] = [
    'succeeded',
    'failed',
    'timed_out',
    'out_of_memory',
    'output_exceeded',
    'cancelled',
    'cancelled_by_site',
  ];
  const free: Outcome[] = ['rejected', 'lost', 'node_failed', 'preempted'];

  test('charges the usage of a job that ended on its own account', () => {
    for (const outcome of charged) {
      const settlement = calculateSettlement({ ...ran, outcome }, request, 'core');
      assert.deepEqual([settlement.kind, settlement.timeSeconds], ['settled', 120], outcome);
      assert.match(settlement.rule, new RegExp(outcome));
    }
  });

  test('charges nothing if the system failed or rejected the job', () => {
    for (const outcome of free) {
      const settlement = calculateSettlement({ ...ran, outcome }, request, 'core');
      assert.deepEqual([settlement.kind, settlement.timeSeconds], ['voided', 0], outcome);
      assert.match(settlement.rule, /\w/);
    }
  });

  test('charges nothing if the job never started', () => {
    for (const outcome of [...charged, ...free]) {
      const settlement = calculateSettlement({ ...ran, outcome, startedAt: null, elapsedSeconds: 0 }, request, 'core');
      assert.deepEqual([settlement.kind, settlement.timeSeconds], ['voided', 0], outcome);
    }
  });

  test('charges the allocation that the system reports instead of the requested units', () => {
    const end = { ...ran, allocation: { nodes: 2, cores: 8 } };
    const seconds = (['core', 'node', 'wall'] as const).map(
      (unit) => calculateSettlement(end, request, unit).timeSeconds,
    );
    assert.deepEqual(seconds, [80, 20, 10]);
  });

  test('charges no more than the granted runtime', () => {
    const granted = { requestedUnits: 12, runtimeSeconds: 6 };
    assert.equal(calculateSettlement(ran, granted, 'core').timeSeconds, 72);
    const allocated = { ...ran, allocation: { nodes: 2, cores: 8 } };
    assert.equal(calculateSettlement(allocated, granted, 'core').timeSeconds, 48);
  });

  test('charges the elapsed seconds times the units', () => {
    fc.assert(
      fc.property(fc.nat({ max: 200_000 }), fc.integer({ min: 1, max: 8192 }), (elapsedSeconds, units) => {
        assert.equal(
          calculateSettlement({ ...ran, elapsedSeconds }, { requestedUnits: units, runtimeSeconds: 1e9 }, 'core')
            .timeSeconds,
          elapsedSeconds * units,
        );
      }),
    );
  });
});
