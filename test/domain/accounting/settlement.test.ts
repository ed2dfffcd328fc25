import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type AccountBalance,
  availableBalance,
  calculateSettlement,
  remaining,
  splitUsage,
  zeroMovement,
} from '../../../src/domain/accounting/settlement.ts';
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

describe('what is available', () => {
  test('is what was granted, less what is held, posted and overrun', () => {
    assert.equal(availableBalance({ granted: 100, held: 20, posted: 30, overrun: 0 }), 50);
    assert.equal(availableBalance({ granted: 100, held: 0, posted: 100, overrun: 7 }), -7);
    assert.equal(availableBalance(zeroMovement), 0);
  });

  test('is shown as the smaller of pool and cap, and never below zero', () => {
    const pool = { granted: 100, held: 0, posted: 0, overrun: 0 };
    const cap = { granted: 60, held: 20, posted: 0, overrun: 0 };
    assert.equal(remaining(pool, cap), 40);
    assert.equal(remaining(cap, pool), 40);
    fc.assert(
      fc.property(accounts, accounts, (first, second) => {
        const shown = remaining(first, second);
        assert.ok(shown >= 0 && !Object.is(shown, -0));
        assert.ok(shown === 0 || (shown <= availableBalance(first) && shown <= availableBalance(second)));
        assert.equal(shown, remaining(second, first));
      }),
    );
  });
});

describe('use', () => {
  test('is posted as far as it is covered, and the rest overruns', () => {
    const account = { granted: 100, held: 0, posted: 40, overrun: 0 };
    assert.deepEqual(splitUsage(account, 60), { posted: 60, overrun: 0 });
    assert.deepEqual(splitUsage(account, 61), { posted: 60, overrun: 1 });
    assert.deepEqual(splitUsage(account, 0), { posted: 0, overrun: 0 });
    assert.deepEqual(splitUsage({ ...account, overrun: 70 }, 5), { posted: 0, overrun: 5 });
  });

  test('is always recorded in full, and never posted beyond what is available', () => {
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

  test('of any number of jobs, held and settled in any order, leaves no account overdrawn but by overruns', () => {
    const job = fc.record({ asked: fc.nat({ max: 1000 }), used: fc.nat({ max: 1500 }), isKept: fc.boolean() });
    fc.assert(
      fc.property(fc.nat({ max: 5000 }), fc.array(job, { maxLength: 30 }), (granted, jobs) => {
        let account: AccountBalance = { ...zeroMovement, granted };
        const running: { asked: number; used: number }[] = [];
        const settle = ({ asked, used }: { asked: number; used: number }) => {
          account = add(account, { held: -asked });
          account = add(account, splitUsage(account, used));
        };
        let usedInAll = 0;
        for (const { asked, used, isKept } of jobs) {
          if (availableBalance(account) < asked) continue;
          account = add(account, { held: asked });
          usedInAll += used;
          if (isKept) running.push({ asked, used });
          else settle({ asked, used });
          assert.ok(account.posted + account.held - account.overrun <= granted);
        }
        for (const one of running) settle(one);
        assert.equal(account.held, 0);
        assert.equal(account.posted + account.overrun, usedInAll);
        assert.ok(account.posted <= granted);
      }),
    );
  });
});

describe('what a finished job owes', () => {
  const ran: JobEnd = {
    outcome: 'succeeded',
    reason: '',
    exitCode: 0,
    startedAt: 1000,
    endedAt: 11_000,
    elapsedSeconds: 10,
  };
  const paying: Outcome[] = [
    'succeeded',
    'failed',
    'timed_out',
    'out_of_memory',
    'output_exceeded',
    'cancelled',
    'cancelled_by_site',
  ];
  const free: Outcome[] = ['rejected', 'lost', 'node_failed', 'preempted'];

  test('is what it used, where the end is its own', () => {
    for (const outcome of paying) {
      const usage = calculateSettlement({ ...ran, outcome }, 12, 'core');
      assert.deepEqual([usage.kind, usage.timeSeconds], ['settled', 120], outcome);
      assert.match(usage.rule, new RegExp(outcome));
    }
  });

  test('is nothing, where the system failed it or would not take it', () => {
    for (const outcome of free) {
      const usage = calculateSettlement({ ...ran, outcome }, 12, 'core');
      assert.deepEqual([usage.kind, usage.timeSeconds], ['voided', 0], outcome);
      assert.match(usage.rule, /\w/);
    }
  });

  test('is nothing, where it never started', () => {
    for (const outcome of [...paying, ...free]) {
      const usage = calculateSettlement({ ...ran, outcome, startedAt: null, elapsedSeconds: 0 }, 12, 'core');
      assert.deepEqual([usage.kind, usage.timeSeconds], ['voided', 0], outcome);
    }
  });

  test('is a whole and positive number of units for each second', () => {
    fc.assert(
      fc.property(fc.nat({ max: 200_000 }), fc.integer({ min: 1, max: 8192 }), (elapsedSeconds, units) => {
        assert.equal(
          calculateSettlement({ ...ran, elapsedSeconds }, units, 'core').timeSeconds,
          elapsedSeconds * units,
        );
      }),
    );
  });
});
