import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  type EndRecord,
  isUncertain,
  type RecordedEnd,
  reconcileEnd,
  toJobEnd,
  wasEndedBeforeStart,
} from '../../../src/domain/jobs/end-record.ts';
import type { JobEnd, Outcome } from '../../../src/domain/jobs/job.ts';

/** A job of two seconds that Slurm reports as having run for 154 s. */
const allocation = { nodes: 1, cores: 4 };
const report = (outcome: Outcome): JobEnd => ({
  ...{ outcome, reason: `reported ${outcome}`, exitCode: null, allocation },
  ...{ startedAt: 1_000_000, endedAt: 1_154_000, elapsedSeconds: 154 },
});
const times = { startedAt: 1_000_000, endedAt: 1_002_000, elapsedSeconds: 2 };
const writtenAt = 1_002_000;
const exited: RecordedEnd = {
  ...{ outcome: 'succeeded', reason: 'exit code 0', exitCode: 0, ...times },
  ...{ wasTerminated: false, writtenAt },
};
const killed: RecordedEnd = {
  ...{ outcome: 'failed', reason: 'killed by SIGTERM', exitCode: null, ...times },
  ...{ wasTerminated: true, writtenAt },
};
const crashed: RecordedEnd = { ...killed, reason: 'killed by SIGSEGV', wasTerminated: false };

function reconcile(outcome: Outcome, record: EndRecord | undefined, options = {}): JobEnd {
  return reconcileEnd(report(outcome), record, { runtimeSeconds: 60, cancelRequestedAt: null, ...options });
}

describe('reconcileEnd', () => {
  test('returns the report of a job without a record', () => {
    assert.deepEqual(reconcile('timed_out', undefined), report('timed_out'));
  });

  for (const outcome of ['node_failed', 'timed_out', 'cancelled', 'lost', 'failed', 'succeeded', 'rejected'] as const) {
    test(`takes outcome and times of a job that exited from its record if the report is ${outcome}`, () => {
      const failed: RecordedEnd = { ...exited, outcome: 'failed', reason: 'exit code 3', exitCode: 3 };
      for (const record of [exited, failed, crashed])
        assert.deepEqual(reconcile(outcome, record), { ...toJobEnd(record), allocation });
    });
  }

  for (const outcome of ['node_failed', 'cancelled', 'preempted', 'out_of_memory'] as const) {
    test(`keeps ${outcome} as the reason why a job was killed, with the times of its record`, () => {
      const end = { ...times, allocation, outcome, reason: `reported ${outcome}`, exitCode: null };
      assert.deepEqual(reconcile(outcome, killed), end);
    });
  }

  test('finds out why a job was killed whose end its controller has forgotten', () => {
    for (const outcome of ['node_failed', 'timed_out'] as const)
      assert.equal(reconcile(outcome, killed, { cancelRequestedAt: 1_001_000 }).outcome, 'cancelled');
    for (const outcome of ['node_failed', 'failed', 'lost'] as const)
      assert.equal(reconcile(outcome, killed, { runtimeSeconds: 2 }).outcome, 'timed_out');
    assert.equal(
      reconcile('timed_out', killed, { cancelRequestedAt: 1_001_000, runtimeSeconds: 2 }).outcome,
      'timed_out',
    );
    assert.equal(reconcile('failed', killed).outcome, 'failed');
  });

  test('ignores a cancellation that was requested after the job had ended by itself', () => {
    const late = { cancelRequestedAt: writtenAt + 10_000 };
    assert.equal(reconcile('cancelled', exited, late).outcome, 'succeeded');
    assert.equal(reconcile('cancelled', killed, late).outcome, 'cancelled');
    // Clocks differ by some seconds.
    assert.equal(reconcile('cancelled', exited, { cancelRequestedAt: writtenAt + 3000 }).outcome, 'cancelled');
  });

  test('keeps a stop that the job could handle and then exit from', () => {
    for (const outcome of ['out_of_memory', 'preempted'] as const)
      assert.equal(reconcile(outcome, exited).outcome, outcome);
    assert.equal(reconcile('cancelled', exited, { cancelRequestedAt: 1_001_000 }).outcome, 'cancelled');
    assert.equal(reconcile('succeeded', exited, { cancelRequestedAt: 1_001_000 }).outcome, 'succeeded');
  });

  test('keeps a timeout only if the job was terminated, or reached its time limit', () => {
    assert.equal(reconcile('timed_out', killed).outcome, 'timed_out');
    for (const record of [exited, crashed]) {
      assert.equal(reconcile('timed_out', record).outcome, record.outcome);
      assert.equal(reconcile('timed_out', record, { runtimeSeconds: 2 }).outcome, 'timed_out');
      // The wrapper starts a moment after Slurm's clock for the job.
      assert.equal(reconcile('timed_out', record, { runtimeSeconds: 3 }).outcome, 'timed_out');
    }
  });

  test('keeps the failure of a node if processes on other nodes exited because of it', () => {
    const failed: RecordedEnd = { ...exited, outcome: 'failed', reason: 'exit code 1', exitCode: 1 };
    const nodes = { ...report('node_failed'), allocation: { nodes: 2, cores: 8 } };
    const limits = { runtimeSeconds: 60, cancelRequestedAt: null };
    assert.equal(reconcileEnd(nodes, failed, limits).outcome, 'node_failed');
    assert.equal(reconcileEnd(nodes, exited, limits).outcome, 'succeeded');
  });

  test('attributes a terminating signal to a requested cancellation', () => {
    const { outcome, reason } = reconcile('failed', killed, { cancelRequestedAt: 1_001_000 });
    assert.deepEqual([outcome, reason], ['cancelled', 'cancelled (killed by SIGTERM)']);
    for (const record of [exited, crashed])
      assert.equal(reconcile('failed', record, { cancelRequestedAt: 1_001_000 }).outcome, record.outcome);
  });

  test('counts at least the reported time that had passed when the record was written', () => {
    const forged = { ...exited, startedAt: 1_100_000, endedAt: 1_100_000, elapsedSeconds: 1, writtenAt: 1_100_000 };
    assert.equal(reconcile('succeeded', forged).elapsedSeconds, 100);
    assert.equal(reconcile('succeeded', { ...forged, writtenAt: 9_000_000 }).elapsedSeconds, 154);
  });

  test('does not count the time for which the system suspended the job', () => {
    const suspended = { ...report('succeeded'), elapsedSeconds: 1 };
    const limits = { runtimeSeconds: 60, cancelRequestedAt: null };
    assert.equal(reconcileEnd(suspended, exited, limits).elapsedSeconds, 1);
    // A report that begins after the job, or ends before it, is wrong, and not a sign of a suspension.
    assert.equal(reconcileEnd({ ...suspended, startedAt: 1_100_000 }, exited, limits).elapsedSeconds, 2);
    const long = { ...exited, endedAt: 1_500_000, elapsedSeconds: 500 };
    assert.equal(reconcileEnd(suspended, long, limits).elapsedSeconds, 500);
  });

  test('distinguishes who ended a job that never started', () => {
    const refused = { ...report('cancelled'), elapsedSeconds: 1 };
    const limits = { runtimeSeconds: 60, cancelRequestedAt: null };
    const {
      outcome,
      reason,
      startedAt,
      elapsedSeconds,
      allocation: used,
    } = reconcileEnd(refused, 'never_started', limits);
    assert.deepEqual([outcome, startedAt, elapsedSeconds, used], ['node_failed', null, 0, undefined]);
    assert.match(reason, /before it started.*submit it again/);
    const cancelled = { ...limits, cancelRequestedAt: 1_001_000 };
    const byOwner = reconcileEnd(refused, 'never_started', cancelled);
    assert.deepEqual([byOwner.outcome, byOwner.startedAt, byOwner.elapsedSeconds], ['cancelled', null, 0]);
    const inQueue = { ...refused, startedAt: null };
    assert.deepEqual(reconcileEnd(inQueue, 'never_started', limits), inQueue);
  });

  test('reports the failure of a node if neither the node nor the job reported its end', () => {
    const limits = { runtimeSeconds: 60, cancelRequestedAt: null };
    const unreported = { ...report('timed_out'), isExitMissing: true };
    for (const record of ['not_ended', 'never_started'] as const) {
      assert.equal(isUncertain(unreported, record), true);
      const end = reconcileEnd(unreported, record, limits);
      assert.match(end.reason, /node failed.*submit it again \(reported timed_out\)/);
      assert.deepEqual(end, { ...report('node_failed'), reason: end.reason });
    }
    // A job that ignores SIGTERM until it is killed leaves no record either, but its node reports its end.
    assert.equal(reconcile('timed_out', 'not_ended').outcome, 'timed_out');
    for (const record of [undefined, exited, killed]) {
      assert.equal(isUncertain(unreported, record), false);
      assert.notEqual(reconcileEnd(unreported, record, limits).outcome, 'node_failed');
    }
  });

  describe('if the report is that of a node that refused to start the job', () => {
    const limits = { runtimeSeconds: 60, cancelRequestedAt: null };
    const refused = { ...report('failed'), reason: 'exit code 1', exitCode: 1, elapsedSeconds: 1 };

    test('reports that the system killed a job that has started and not ended', () => {
      assert.equal(isUncertain(refused, 'not_ended'), true);
      const { outcome, reason, exitCode } = reconcileEnd(refused, 'not_ended', limits);
      assert.deepEqual([outcome, exitCode], ['node_failed', null]);
      assert.match(reason, /killed it, nothing is charged: submit it again \(exit code 1\)/);
    });

    test('reports that nothing ran of a job that has not started', () => {
      assert.equal(wasEndedBeforeStart(refused, 'never_started', false), true);
      assert.equal(wasEndedBeforeStart(refused, 'never_started', true), false);
      const { outcome, exitCode, elapsedSeconds } = reconcileEnd(refused, 'never_started', limits);
      assert.deepEqual([outcome, exitCode, elapsedSeconds], ['node_failed', null, 0]);
      const cancelled = reconcileEnd(refused, 'never_started', { ...limits, cancelRequestedAt: 1_001_000 });
      assert.deepEqual([cancelled.outcome, cancelled.reason], ['cancelled', 'cancelled (exit code 1)']);
      assert.deepEqual([cancelled.exitCode, cancelled.startedAt, cancelled.elapsedSeconds], [null, null, 0]);
    });

    test('believes the record of a job that has ended', () => {
      const failed: RecordedEnd = { ...exited, outcome: 'failed', reason: 'exit code 1', exitCode: 1 };
      for (const record of [exited, failed, killed]) {
        assert.equal(isUncertain(refused, record), false);
        assert.equal(reconcileEnd(refused, record, limits).outcome, record.outcome);
      }
      assert.deepEqual(reconcileEnd(refused, undefined, limits), refused);
    });

    test('believes a report that is none of a refusal', () => {
      const long = { ...refused, elapsedSeconds: 61 };
      const otherCode = { ...refused, reason: 'exit code 2', exitCode: 2 };
      const signalled = { ...refused, reason: 'killed by SIGKILL', exitCode: null };
      for (const other of [long, otherCode, signalled]) {
        for (const record of ['not_ended', 'never_started'] as const) {
          assert.deepEqual(reconcileEnd(other, record, limits), other);
          assert.equal(isUncertain(other, record), false);
          assert.equal(wasEndedBeforeStart(other, record, false), false);
        }
      }
    });
  });

  test('isUncertain recognises a started job that the system reports as never started', () => {
    const notStarted = { ...report('cancelled'), startedAt: null };
    assert.equal(isUncertain(notStarted, 'not_ended'), true);
    assert.equal(isUncertain(report('cancelled'), 'not_ended'), false);
    assert.equal(isUncertain(notStarted, 'never_started'), false);
    // It has no record, and never will.
    assert.equal(isUncertain({ ...notStarted, outcome: 'lost' }, 'not_ended'), false);
  });

  test('keeps the report of a job that ran and has removed its start record', () => {
    for (const outcome of ['succeeded', 'failed', 'timed_out', 'cancelled'] as const)
      assert.deepEqual(reconcile(outcome, 'never_started'), report(outcome));
  });
});
