import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EngineHarness, type EngineTest, withAutomaticRelease } from './engine-harness.ts';
import { eventually, neverAborted, observeAll, observeJob, waitUntilFinished, waitUntilRunning } from './observing.ts';
import { outcomes } from './outcome-contract.ts';
import { countRuns, letFinish, runOnce, runUntilReleased } from './test-jobs.ts';

/** Tests the guarantees of `Engine` for every engine, through the interface and the jobs' files only. */
export function engineContract(
  name: string,
  makeHarness: () => Promise<EngineHarness>,
  options: { concurrency?: number } = {},
): void {
  const check: EngineTest = (title, body) =>
    void test(title, async () => {
      const harness = await makeHarness();
      try {
        await body({
          ...harness,
          engine: withAutomaticRelease(harness.engine),
          reopen: async () => withAutomaticRelease(await harness.reopen()),
        });
      } finally {
        await harness.close();
      }
    });

  describe(`${name} meets the Engine contract`, options, () => {
    describe('submission', () => submission(check));
    describe('outcomes', () => outcomes(check));
    describe('cancellation', () => cancellation(check));
    describe('restarts', () => restarts(check));
  });
}

function submission(check: EngineTest): void {
  check('runs a job once that is submitted five times', async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    const ids = await Promise.all([1, 2, 3].map(() => engine.submit(job, neverAborted)));
    ids.push(await engine.submit(job, neverAborted));
    await waitUntilFinished(engine, job.jobId);
    ids.push(await engine.submit(job, neverAborted));
    assert.equal(new Set(ids).size, 1);
    await waitUntilFinished(engine, job.jobId);
    assert.equal(await countRuns(job), 1);
  });

  check('finds the jobs that it has, and no others', async ({ engine, newJob }) => {
    const job = await newJob();
    const other = await newJob();
    assert.equal((await engine.find([job], neverAborted)).size, 0);
    const id = await engine.submit(job, neverAborted);
    assert.deepEqual([...(await engine.find([job, other], neverAborted))], [[job.jobId, id]]);
  });

  check(
    'reports a running job, and its end until it is forgotten',
    async ({ engine, newJob, keepsFinishedJobs: keepsForgotten }) => {
      const job = await newJob(runUntilReleased);
      assert.deepEqual(await observeAll(engine), []);
      const ref = await engine.submit(job, neverAborted);
      const { startedAt } = await waitUntilRunning(engine, job.jobId);
      await engine.forget([job.jobId, 'unknown'], neverAborted);
      assert.equal((await observeJob(engine, job.jobId))?.kind, 'running');
      await letFinish(job);
      const end = await waitUntilFinished(engine, job.jobId);
      assert.equal(end.startedAt, startedAt);
      assert.ok(end.endedAt >= startedAt);
      assert.ok(Number.isInteger(end.elapsedSeconds) && end.elapsedSeconds >= 1);
      assert.deepEqual(await waitUntilFinished(engine, job.jobId), end);
      await engine.forget([job.jobId, 'unknown'], neverAborted);
      assert.deepEqual(await observeAll(engine), []);
      if (keepsForgotten) return;
      // A database that was restored may expect a job that has ended: it must not be submitted again.
      assert.equal((await engine.find([job], neverAborted)).size, 1);
      const expected = new Map([[job.jobId, ref]]);
      const [again] = await engine.observe(expected, neverAborted);
      assert.deepEqual(again, end);
      await engine.forget([job.jobId], neverAborted);
      assert.deepEqual(await engine.observe(expected, neverAborted), []);
    },
  );

  check('runs ten concurrently submitted jobs once each', async ({ engine, newJob }) => {
    const jobs = await Promise.all(Array.from({ length: 10 }, () => newJob(runOnce)));
    await Promise.all(jobs.map((job) => engine.submit(job, neverAborted)));
    for (const job of jobs) assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all(jobs.map(countRuns)), Array(10).fill(1));
  });

  check(
    'calls its change listeners, if it supports change events',
    async ({ engine, newJob, hasNoChangeEvents: isSilent = false }) => {
      let changes = 0;
      engine.onChange(() => changes++);
      const job = await newJob();
      await engine.submit(job, neverAborted);
      await waitUntilFinished(engine, job.jobId);
      await eventually('a change event', async () => changes > 0 || isSilent);
    },
  );

  check('does not submit a job if the signal is already aborted', async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    await assert.rejects(engine.submit(job, AbortSignal.abort()));
    assert.equal((await engine.find([job], neverAborted)).size, 0);
  });
}

function cancellation(check: EngineTest): void {
  check('never runs a job that is cancelled before its start', async ({ engine, newJob, wholeSystem }) => {
    const first = await newJob({ ...runUntilReleased, ...wholeSystem });
    const second = await newJob(runOnce);
    await engine.submit(first, neverAborted);
    await waitUntilRunning(engine, first.jobId);
    await engine.submit(second, neverAborted);
    assert.equal((await observeJob(engine, second.jobId))?.kind, 'queued');
    await engine.cancel(second.jobId, neverAborted);
    const end = await waitUntilFinished(engine, second.jobId);
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
    await letFinish(first);
    assert.equal((await waitUntilFinished(engine, first.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(second), 0);
  });

  check('ends a job that is cancelled right after its submission, with at most one run', async ({ engine, newJob }) => {
    const jobs = await Promise.all([1, 2, 3, 4].map(() => newJob(runUntilReleased)));
    await Promise.all(
      jobs.map(async (job) => {
        await engine.submit(job, neverAborted);
        await engine.cancel(job.jobId, neverAborted);
      }),
    );
    for (const job of jobs) assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'cancelled');
    for (const job of jobs) assert.ok((await countRuns(job)) <= 1);
  });

  check('cancels a running job', async ({ engine, newJob, cancelReason }) => {
    const job = await newJob(runUntilReleased);
    await engine.submit(job, neverAborted);
    const { startedAt } = await waitUntilRunning(engine, job.jobId);
    await engine.cancel(job.jobId, neverAborted);
    await engine.cancel(job.jobId, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.reason, end.exitCode], ['cancelled', cancelReason, null]);
    assert.equal(end.startedAt ?? startedAt, startedAt);
  });

  check('ignores the cancellation of a finished or unknown job', async ({ engine, newJob }) => {
    const job = await newJob();
    await engine.submit(job, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    await engine.cancel(job.jobId, neverAborted);
    await engine.cancel('unknown', neverAborted);
    assert.deepEqual(await waitUntilFinished(engine, job.jobId), end);
  });
}

function restarts(check: EngineTest): void {
  check('finds finished, running and queued jobs again', async ({ engine, newJob, reopen, wholeSystem }) => {
    const [done, holding, waiting] = [
      await newJob(runOnce),
      await newJob({ ...runUntilReleased, ...wholeSystem }),
      await newJob(runOnce),
    ];
    const id = await engine.submit(done, neverAborted);
    const end = await waitUntilFinished(engine, done.jobId);
    await engine.submit(holding, neverAborted);
    const { startedAt } = await waitUntilRunning(engine, holding.jobId);
    await engine.submit(waiting, neverAborted);

    const reopened = await reopen();
    assert.equal((await reopened.find([done], neverAborted)).get(done.jobId), id);
    assert.deepEqual(await waitUntilFinished(reopened, done.jobId), end);
    assert.equal((await waitUntilRunning(reopened, holding.jobId)).startedAt, startedAt);
    assert.equal((await observeJob(reopened, waiting.jobId))?.kind, 'queued');
    for (const job of [done, holding, waiting]) await reopened.submit(job, neverAborted);

    await letFinish(holding);
    for (const job of [holding, waiting])
      assert.equal((await waitUntilFinished(reopened, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all([done, holding, waiting].map(countRuns)), [1, 1, 1]);
  });

  check('cancels a job that an earlier engine started', async ({ engine, newJob, reopen }) => {
    const job = await newJob(runUntilReleased);
    await engine.submit(job, neverAborted);
    await waitUntilRunning(engine, job.jobId);
    const reopened = await reopen();
    await reopened.cancel(job.jobId, neverAborted);
    assert.equal((await waitUntilFinished(reopened, job.jobId)).outcome, 'cancelled');
  });

  check(
    'does not report a forgotten job again, except as finished',
    async ({ engine, newJob, reopen, keepsFinishedJobs: keepsForgotten }) => {
      const job = await newJob();
      await engine.submit(job, neverAborted);
      await waitUntilFinished(engine, job.jobId);
      await engine.forget([job.jobId], neverAborted);
      const kinds = (await observeAll(await reopen())).map(({ kind }) => kind);
      assert.deepEqual(kinds, keepsForgotten ? ['finished'] : []);
    },
  );
}
