import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  type CancelRequester,
  isFailure,
  isTerminal,
  type JobEnd,
  type JobState,
  type JobStatus,
  type Outcome,
  type StageNames,
  toStage,
} from '../../../src/domain/jobs/job.ts';
import { type Observation, transition as transitionOf } from '../../../src/domain/jobs/transition.ts';

const outcomes: Outcome[] = [
  'succeeded',
  'failed',
  'timed_out',
  'out_of_memory',
  'output_exceeded',
  'cancelled',
  'cancelled_by_site',
  'rejected',
  'lost',
  'node_failed',
  'preempted',
];
const order: JobState[] = ['accepted', 'submitting', 'queued', 'running', 'ended', 'deleted'];
const rank = (status: JobStatus) => order.indexOf(status.state);

const end: JobEnd = {
  outcome: 'succeeded',
  reason: 'exit code 0',
  exitCode: 0,
  startedAt: 1000,
  endedAt: 5000,
  elapsedSeconds: 4,
};

const ends: fc.Arbitrary<JobEnd> = fc.record({
  outcome: fc.constantFrom(...outcomes),
  reason: fc.string(),
  exitCode: fc.option(fc.integer({ min: 0, max: 255 })),
  startedAt: fc.option(fc.nat()),
  endedAt: fc.nat(),
  elapsedSeconds: fc.nat(),
});
const observations: fc.Arbitrary<Observation> = fc.oneof(
  fc.constant({ jobId: 'A', ref: '1', kind: 'queued' as const, held: false }),
  fc.nat().map((startedAt) => ({ jobId: 'A', ref: '1', kind: 'running' as const, startedAt })),
  ends.map((jobEnd) => ({ jobId: 'A', ref: '1', kind: 'finished' as const, ...jobEnd })),
);
const statuses: fc.Arbitrary<JobStatus> = fc.oneof(
  fc.constantFrom<JobStatus>({ state: 'accepted' }, { state: 'submitting' }, { state: 'queued' }),
  fc.nat().map((startedAt): JobStatus => ({ state: 'running', startedAt })),
  ends.map((jobEnd): JobStatus => ({ state: 'ended', ...jobEnd })),
  ends.map((jobEnd): JobStatus => ({ state: 'deleted', ...jobEnd })),
);

const transition = (status: JobStatus, observation: Observation, cancelRequestedBy: CancelRequester | null = 'owner') =>
  transitionOf(status, observation, cancelRequestedBy);

describe('transition', () => {
  test('follows the observation', () => {
    const running: Observation = { jobId: 'A', ref: '1', kind: 'running', startedAt: 1000 };
    const finished: Observation = { jobId: 'A', ref: '1', kind: 'finished', ...end };
    assert.deepEqual(transition({ state: 'accepted' }, { jobId: 'A', ref: '1', kind: 'queued', held: false }), {
      state: 'queued',
    });
    assert.deepEqual(transition({ state: 'submitting' }, { jobId: 'A', ref: '1', kind: 'queued', held: false }), {
      state: 'queued',
    });
    assert.deepEqual(transition({ state: 'queued' }, running), { state: 'running', startedAt: 1000 });
    assert.deepEqual(transition({ state: 'accepted' }, running), { state: 'running', startedAt: 1000 });
    assert.deepEqual(transition({ state: 'running', startedAt: 1000 }, finished), { state: 'ended', ...end });
    assert.deepEqual(transition({ state: 'queued' }, finished), { state: 'ended', ...end });
  });

  test('returns null if the state does not change', () => {
    assert.equal(transition({ state: 'queued' }, { jobId: 'A', ref: '1', kind: 'queued', held: false }), null);
    assert.equal(
      transition({ state: 'running', startedAt: 1000 }, { jobId: 'A', ref: '1', kind: 'running', startedAt: 2000 }),
      null,
    );
  });

  test('returns null for a job that is already ending, which may never have started', () => {
    const ending = { jobId: 'J', ref: '1', kind: 'running', startedAt: 1000, isEnding: true } as const;
    assert.equal(transition({ state: 'queued' }, ending), null);
  });

  test('never goes back to an earlier state', () => {
    fc.assert(
      fc.property(statuses, observations, (status, observation) => {
        const next = transition(status, observation);
        assert.ok(next === null || rank(next) > rank(status));
      }),
    );
  });

  test('never changes a final status, whatever is observed afterwards', () => {
    fc.assert(
      fc.property(statuses, fc.array(observations, { maxLength: 30 }), (first, sequence) => {
        let status = first;
        let finalStatus: JobStatus | null = isTerminal(first.state) ? first : null;
        for (const observation of sequence) {
          status = transition(status, observation) ?? status;
          if (finalStatus !== null) assert.equal(status, finalStatus);
          else if (isTerminal(status.state)) finalStatus = status;
        }
      }),
    );
  });

  test('copies every field of the job end, and no other field of the observation', () => {
    fc.assert(
      fc.property(ends, (jobEnd) => {
        const next = transition({ state: 'queued' }, { jobId: 'A', ref: '1', kind: 'finished', ...jobEnd });
        assert.deepEqual(next, { state: 'ended', ...jobEnd });
      }),
    );
  });

  test('attributes a cancellation to the one who requested it, and keeps the message of the engine', () => {
    const cancelled = (reason: string, cancelRequestedBy: CancelRequester | null) => {
      const jobEnd = { ...end, outcome: 'cancelled', reason } as const;
      const finished = { jobId: 'A', ref: '1', kind: 'finished', ...jobEnd } as const;
      const next = transition({ state: 'queued' }, finished, cancelRequestedBy);
      return next?.state === 'ended' ? [next.outcome, next.reason] : [];
    };
    for (const [requester, outcome, reason] of [
      ['owner', 'cancelled', 'cancelled by its owner'],
      ['administrator', 'cancelled_by_site', 'cancelled by an administrator'],
      [null, 'cancelled_by_site', 'cancelled by an administrator of the cluster'],
    ] as const) {
      assert.deepEqual(cancelled('cancelled by its owner', requester), [outcome, reason]);
      assert.deepEqual(cancelled('cancelled (CANCELLED by 0)', requester), [outcome, `${reason} (CANCELLED by 0)`]);
    }
  });
});

describe('toStage', () => {
  const stageNames: StageNames = {
    queued: 'Q',
    running: 'R',
    succeeded: 'S',
    failed: 'F',
    cancelled: 'C',
    deleted: 'D',
  };

  test('names the stages of unfinished jobs', () => {
    const unstarted: JobStatus[] = [{ state: 'accepted' }, { state: 'submitting' }, { state: 'queued' }];
    assert.deepEqual(
      unstarted.map((status) => toStage(status, stageNames)),
      ['Q', 'Q', 'Q'],
    );
    assert.equal(toStage({ state: 'running', startedAt: 1 }, stageNames), 'R');
  });

  test('distinguishes success, cancellation and failure of ended jobs', () => {
    const stages = outcomes.map((outcome) => toStage({ state: 'ended', ...end, outcome }, stageNames));
    assert.deepEqual(stages, ['S', 'F', 'F', 'F', 'F', 'C', 'F', 'F', 'F', 'F', 'F']);
  });

  test('has one stage for deleted jobs, whatever their outcome', () => {
    for (const outcome of outcomes) assert.equal(toStage({ state: 'deleted', ...end, outcome }, stageNames), 'D');
  });

  test('agrees with isTerminal and isFailure', () => {
    assert.deepEqual(order.filter(isTerminal), ['ended', 'deleted']);
    assert.deepEqual(
      outcomes.filter((outcome) => !isFailure(outcome)),
      ['succeeded', 'cancelled'],
    );
    fc.assert(
      fc.property(statuses, (status) => {
        const isFinalStage = ['S', 'F', 'C', 'D'].includes(toStage(status, stageNames));
        assert.equal(isFinalStage, isTerminal(status.state));
      }),
    );
  });
});
