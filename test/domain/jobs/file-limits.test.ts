import assert from 'node:assert/strict';
import { test } from 'node:test';
import { applyFileLimit, checkFileLimits } from '../../../src/domain/jobs/file-limits.ts';

const MB = 1_000_000;
const [pool, capOfA, capOfB] = [1, 2, 3];
const job = (
  jobId: string,
  bytes: number,
  { heldBytes = 0, withinQuotaBytes = 0, cap = capOfA, entries = 1 } = {},
) => ({
  jobId,
  usage: { bytes, entries },
  heldBytes,
  withinQuotaBytes,
  accounts: [pool, cap],
});
const exceeded = (jobs: ReturnType<typeof job>[], left: [number, number][]) =>
  Object.fromEntries(checkFileLimits(jobs, new Map(left), 10).exceeded);
const plenty: [number, number][] = [
  [pool, 1e12],
  [capOfA, 1e12],
  [capOfB, 1e12],
];

test('a job may use what it holds and what its quota has left', () => {
  const left: [number, number][] = [
    [pool, 1e12],
    [capOfA, 100 * MB],
  ];
  assert.deepEqual(exceeded([job('x', 300 * MB, { heldBytes: 200 * MB })], left), {});
  assert.deepEqual(exceeded([job('x', 311 * MB, { heldBytes: 200 * MB })], left), { x: 'space_limit' });
});

test('running jobs share what is left: those that need most of it exceed it', () => {
  const left: [number, number][] = [
    [pool, 1e12],
    [capOfA, 100 * MB],
  ];
  const jobs = [job('most', 80 * MB), job('small', 40 * MB), job('middle', 50 * MB)];
  assert.deepEqual(exceeded(jobs, left), { most: 'space_limit' });
});

test('the pool of the project limits the jobs of all its users together', () => {
  const left: [number, number][] = [
    [pool, 100 * MB],
    [capOfA, 1e12],
    [capOfB, 1e12],
  ];
  const jobs = [job('a', 70 * MB), job('b', 90 * MB, { cap: capOfB })];
  assert.deepEqual(exceeded(jobs, left), { b: 'space_limit' });
});

test('a quota that is full, or overrun, does not end jobs that only write a log', () => {
  const left: [number, number][] = [
    [pool, 0],
    [capOfA, -50 * MB],
  ];
  assert.deepEqual(exceeded([job('log', 5 * MB), job('data', 50 * MB)], left), { data: 'space_limit' });
});

test('a job keeps the space that it had while there was enough, even if another one has overrun the quota', () => {
  const left: [number, number][] = [
    [pool, -500 * MB],
    [capOfA, 1e12],
    [capOfB, 1e12],
  ];
  const idle = job('idle', 50 * MB, { withinQuotaBytes: 50 * MB });
  const growing = job('growing', 70 * MB, { withinQuotaBytes: 50 * MB, cap: capOfB });
  assert.deepEqual(exceeded([idle, growing], left), { growing: 'space_limit' });
});

test('of the jobs that share a quota, the one that has grown exceeds it, and not the largest', () => {
  const left: [number, number][] = [
    [pool, 100 * MB],
    [capOfA, 1e12],
    [capOfB, 1e12],
  ];
  const large = job('large', 70 * MB, { withinQuotaBytes: 70 * MB });
  const grown = job('grown', 60 * MB, { withinQuotaBytes: 20 * MB, cap: capOfB });
  assert.deepEqual(exceeded([large, grown], left), { grown: 'space_limit' });
});

test('the space that a job keeps follows its files while they fit, and does not grow with the tolerance', () => {
  const fitted = (bytes: number, withinQuotaBytes: number) =>
    checkFileLimits(
      [job('x', bytes, { withinQuotaBytes })],
      new Map([...plenty, [capOfA, 100 * MB]]),
      10,
    ).withinQuotaBytes.get('x');
  assert.equal(fitted(90 * MB, 0), 90 * MB);
  assert.equal(fitted(30 * MB, 90 * MB), 30 * MB);
  assert.equal(fitted(105 * MB, 90 * MB), 90 * MB);
});

test('more files and folders than allowed exceed their limit, whatever their size', () => {
  assert.deepEqual(exceeded([job('x', 0, { entries: 10 }), job('y', 0, { entries: 11 })], plenty), { y: 'file_limit' });
});

test('an end by the job itself becomes output_exceeded if it leaves too many files', () => {
  const end = {
    outcome: 'succeeded',
    reason: 'exit code 0',
    exitCode: 0,
    startedAt: 1,
    endedAt: 2,
    elapsedSeconds: 1,
  } as const;
  assert.equal(applyFileLimit(end, { bytes: 0, entries: 10 }, 10), end);
  const { outcome, reason } = applyFileLimit(end, { bytes: 0, entries: 11 }, 10);
  assert.deepEqual(
    [outcome, reason],
    ['output_exceeded', 'it left 11 files and folders, and the limit is 10 (exit code 0)'],
  );
  const timedOut = { ...end, outcome: 'timed_out' } as const;
  assert.equal(applyFileLimit(timedOut, { bytes: 0, entries: 11 }, 10), timedOut);
});
