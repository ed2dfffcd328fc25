import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { attributeSignalToCancellation, type EndRecord, reconcileEnd } from '../../../src/domain/jobs/end-record.ts';
import type { JobEnd, Outcome } from '../../../src/domain/jobs/job.ts';

/** A job of two seconds that Slurm reports as having run for 154 s. */
const allocation = { nodes: 1, cores: 4 };
const report = (outcome: Outcome): JobEnd => ({
  ...{ outcome, reason: `reported ${outcome}`, exitCode: null, allocation },
  ...{ startedAt: 1_000_000, endedAt: 1_154_000, elapsedSeconds: 154 },
});
const times = { startedAt: 1_000_000, endedAt: 1_002_000, elapsedSeconds: 2 };
const exited: JobEnd = { outcome: 'succeeded', reason: 'exit code 0', exitCode: 0, ...times };
const killed: JobEnd = { outcome: 'failed', reason: 'killed by SIGTERM', exitCode: null, ...times };

function reconcile(outcome: Outcome, record: EndRecord | undefined, options = {}): JobEnd {
  return reconcileEnd(report(outcome), record, { runtimeSeconds: 60, isCancelRequested: false, ...options });
}

describe('reconcileEnd', () => {
  test('returns the report of a job without a record', () => {
    assert.deepEqual(reconcile('timed_out', undefined), report('timed_out'));
  });

  for (const outcome of ['node_failed', 'timed_out', 'cancelled', 'lost', 'failed', 'succeeded', 'rejected'] as const) {
    test(`takes outcome and times of a job that exited from its record if the report is ${outcome}`, () => {
      assert.deepEqual(reconcile(outcome, exited), { ...exited, allocation });
      const failed: JobEnd = { ...exited, outcome: 'failed', reason: 'exit code 3', exitCode: 3 };
      assert.deepEqual(reconcile(outcome, failed), { ...failed, allocation });
    });
  }

  for (const outcome of ['node_failed', 'cancelled', 'preempted', 'out_of_memory'] as const) {
    test(`keeps ${outcome} as the reason why a job was killed, with the times of its record`, () => {
      const end = { ...times, allocation, outcome, reason: `reported ${outcome}`, exitCode: null };
      assert.deepEqual(reconcile(outcome, killed), end);
    });
  }

  test('keeps a stop that the job could handle and then exit from', () => {
    for (const outcome of ['out_of_memory', 'preempted'] as const)
      assert.equal(reconcile(outcome, exited).outcome, outcome);
    assert.equal(reconcile('cancelled', exited, { isCancelRequested: true }).outcome, 'cancelled');
    assert.equal(reconcile('succeeded', exited, { isCancelRequested: true }).outcome, 'succeeded');
  });

  test('keeps a timeout only if the job reached its time limit', () => {
    for (const record of [exited, killed]) {
      assert.equal(reconcile('timed_out', record).outcome, record.outcome);
      assert.equal(reconcile('timed_out', record, { runtimeSeconds: 2 }).outcome, 'timed_out');
      // The wrapper starts a moment after Slurm's clock for the job.
      assert.equal(reconcile('timed_out', record, { runtimeSeconds: 3 }).outcome, 'timed_out');
    }
  });

  test('does not count the time for which the system suspended the job', () => {
    const suspended = { ...report('succeeded'), elapsedSeconds: 1 };
    const limits = { runtimeSeconds: 60, isCancelRequested: false };
    assert.equal(reconcileEnd(suspended, exited, limits).elapsedSeconds, 1);
    // A report that begins after the job, or ends before it, is wrong, and not a sign of a suspension.
    assert.equal(reconcileEnd({ ...suspended, startedAt: 1_100_000 }, exited, limits).elapsedSeconds, 2);
    const long = { ...exited, endedAt: 1_500_000, elapsedSeconds: 500 };
    assert.equal(reconcileEnd(suspended, long, limits).elapsedSeconds, 500);
  });

  test('counts no usage for a job that never started', () => {
    for (const outcome of ['failed', 'node_failed', 'timed_out', 'cancelled'] as const) {
      const { startedAt, elapsedSeconds, allocation: used } = reconcile(outcome, 'never_started');
      assert.deepEqual([startedAt, elapsedSeconds, used], [null, 0, undefined], outcome);
    }
  });

  test('distinguishes who ended a job that never started', () => {
    const onNode = reconcile('cancelled', 'never_started');
    assert.equal(onNode.outcome, 'node_failed');
    assert.match(onNode.reason, /before it started.*submit it again/);
    assert.equal(reconcile('cancelled', 'never_started', { isCancelRequested: true }).outcome, 'cancelled');
    const inQueue = { ...report('cancelled'), startedAt: null };
    const limits = { runtimeSeconds: 60, isCancelRequested: false };
    assert.equal(reconcileEnd(inQueue, 'never_started', limits).outcome, 'cancelled');
  });
});

test('attributeSignalToCancellation changes the outcome only of a job that a signal killed', () => {
  assert.deepEqual(attributeSignalToCancellation(exited), exited);
  const { outcome, reason } = attributeSignalToCancellation(killed);
  assert.deepEqual([outcome, reason], ['cancelled', 'cancelled (killed by SIGTERM)']);
});
