import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  isFailure,
  isTerminal,
  type JobEnd,
  type JobState,
  type JobStatus,
  type Outcome,
} from '../../../src/domain/jobs/job.ts';
import { type StageNames, toStage } from '../../../src/domain/jobs/stage.ts';
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
  ends.map((how) => ({ jobId: 'A', ref: '1', kind: 'finished' as const, ...how })),
);
const statuses: fc.Arbitrary<JobStatus> = fc.oneof(
  fc.constantFrom<JobStatus>({ state: 'accepted' }, { state: 'submitting' }, { state: 'queued' }),
  fc.nat().map((startedAt): JobStatus => ({ state: 'running', startedAt })),
  ends.map((how): JobStatus => ({ state: 'ended', ...how })),
  ends.map((how): JobStatus => ({ state: 'deleted', ...how })),
);

const transition = (status: JobStatus, observation: Observation, isToBeCancelled = true) =>
  transitionOf(status, observation, isToBeCancelled);

describe('a transition', () => {
  test('follows what was observed', () => {
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

  test('says nothing when nothing is new', () => {
    assert.equal(transition({ state: 'queued' }, { jobId: 'A', ref: '1', kind: 'queued', held: false }), null);
    assert.equal(
      transition({ state: 'running', startedAt: 1000 }, { jobId: 'A', ref: '1', kind: 'running', startedAt: 2000 }),
      null,
    );
  });

  test('never goes back', () => {
    fc.assert(
      fc.property(statuses, observations, (status, observation) => {
        const next = transition(status, observation);
        assert.ok(next === null || rank(next) > rank(status));
      }),
    );
  });

  test('leaves what is over as it is, whatever is observed afterwards and however often', () => {
    fc.assert(
      fc.property(statuses, fc.array(observations, { maxLength: 30 }), (first, seen) => {
        let status = first;
        let over: JobStatus | null = isTerminal(first.state) ? first : null;
        for (const observation of seen) {
          status = transition(status, observation) ?? status;
          if (over !== null) assert.equal(status, over);
          else if (isTerminal(status.state)) over = status;
        }
      }),
    );
  });

  test('keeps all of how a job ended, and nothing of the observation besides', () => {
    fc.assert(
      fc.property(ends, (how) => {
        const next = transition({ state: 'queued' }, { jobId: 'A', ref: '1', kind: 'finished', ...how });
        assert.deepEqual(next, { state: 'ended', ...how });
      }),
    );
  });

  test('tells whose cancellation it was by what the owner has asked for, in the words of the system', () => {
    const cancelled = (reason: string, isToBeCancelled: boolean) => {
      const how = { ...end, outcome: 'cancelled', reason } as const;
      const next = transition({ state: 'queued' }, { jobId: 'A', ref: '1', kind: 'finished', ...how }, isToBeCancelled);
      return next?.state === 'ended' ? [next.outcome, next.reason] : [];
    };
    const site = 'cancelled by an administrator of the cluster';
    assert.deepEqual(cancelled('cancelled by its owner', true), ['cancelled', 'cancelled by its owner']);
    assert.deepEqual(cancelled('cancelled (CANCELLED)', true), ['cancelled', 'cancelled by its owner (CANCELLED)']);
    assert.deepEqual(cancelled('cancelled (CANCELLED by 0)', false), ['cancelled_by_site', `${site} (CANCELLED by 0)`]);
    assert.deepEqual(cancelled('cancelled by its owner', false), ['cancelled_by_site', site]);
  });
});

describe('stages', () => {
  const words: StageNames = {
    queued: 'Q',
    running: 'R',
    succeeded: 'S',
    failed: 'F',
    cancelled: 'C',
    deleted: 'D',
  };

  test('of a job that is not over', () => {
    const open: JobStatus[] = [{ state: 'accepted' }, { state: 'submitting' }, { state: 'queued' }];
    assert.deepEqual(
      open.map((status) => toStage(status, words)),
      ['Q', 'Q', 'Q'],
    );
    assert.equal(toStage({ state: 'running', startedAt: 1 }, words), 'R');
  });

  test('of a job that is over tell success, cancellation and failure apart', () => {
    const shown = outcomes.map((outcome) => toStage({ state: 'ended', ...end, outcome }, words));
    assert.deepEqual(shown, ['S', 'F', 'F', 'F', 'F', 'C', 'F', 'F', 'F', 'F', 'F']);
  });

  test('of a job whose files are gone are the same for every outcome', () => {
    for (const outcome of outcomes) assert.equal(toStage({ state: 'deleted', ...end, outcome }, words), 'D');
  });

  test('agree with what is final and what has failed', () => {
    assert.deepEqual(order.filter(isTerminal), ['ended', 'deleted']);
    assert.deepEqual(
      outcomes.filter((outcome) => !isFailure(outcome)),
      ['succeeded', 'cancelled'],
    );
    fc.assert(
      fc.property(statuses, (status) => {
        const isOver = ['S', 'F', 'C', 'D'].includes(toStage(status, words));
        assert.equal(isOver, isTerminal(status.state));
      }),
    );
  });
});
