import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type EngineHarness, type EngineTest, withAutomaticRelease } from './engine-harness.ts';
import { eventually, neverAborted, observeAll, observeJob, waitUntilFinished, waitUntilRunning } from './observing.ts';
import { outcomes } from './outcome-contract.ts';
import { countRuns, letFinish, runOnce, runUntilReleased } from './test-jobs.ts';

/** The guarantees of `Engine`, for any engine: talks through the interface and the job's files alone. */
export function engineContract(name: string, makeHarness: () => Promise<EngineHarness>): void {
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

  describe(`${name} keeps the contract of engines`, () => {
    describe('submission', () => submission(check));
    describe('outcomes', () => outcomes(check));
    describe('cancellation', () => cancellation(check));
    describe('restarts', () => restarts(check));
  });
}

function submission(check: EngineTest): void {
  check('a job that is submitted five times runs once', async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    const ids = await Promise.all([1, 2, 3].map(() => engine.submit(job, neverAborted)));
    ids.push(await engine.submit(job, neverAborted));
    await waitUntilFinished(engine, job.jobId);
    ids.push(await engine.submit(job, neverAborted));
    assert.equal(new Set(ids).size, 1);
    await waitUntilFinished(engine, job.jobId);
    assert.equal(await countRuns(job), 1);
  });

  check('it finds the jobs it has, and no others', async ({ engine, newJob }) => {
    const job = await newJob();
    const other = await newJob();
    assert.equal((await engine.find([job.jobId], neverAborted)).size, 0);
    const id = await engine.submit(job, neverAborted);
    assert.deepEqual([...(await engine.find([job.jobId, other.jobId], neverAborted))], [[job.jobId, id]]);
  });

  check(
    'it observes a job on its way, and its end until it is forgotten',
    async ({ engine, newJob, keepsFinishedJobs: keepsForgotten }) => {
      const job = await newJob(runUntilReleased);
      assert.deepEqual(await observeAll(engine), []);
      await engine.submit(job, neverAborted);
      const { startedAt } = await waitUntilRunning(engine, job.jobId);
      await engine.forget([job.jobId, 'nobody'], neverAborted);
      assert.equal((await observeJob(engine, job.jobId))?.kind, 'running');
      await letFinish(job);
      const end = await waitUntilFinished(engine, job.jobId);
      assert.equal(end.startedAt, startedAt);
      assert.ok(end.endedAt >= startedAt);
      assert.ok(Number.isInteger(end.elapsedSeconds) && end.elapsedSeconds >= 1);
      assert.deepEqual(await waitUntilFinished(engine, job.jobId), end);
      await engine.forget([job.jobId, 'nobody'], neverAborted);
      assert.deepEqual(await observeAll(engine), []);
      if (!keepsForgotten) assert.equal((await engine.find([job.jobId], neverAborted)).size, 0);
    },
  );

  check('twenty jobs at once all run, once each', async ({ engine, newJob }) => {
    const jobs = await Promise.all(Array.from({ length: 20 }, () => newJob(runOnce)));
    await Promise.all(jobs.map((job) => engine.submit(job, neverAborted)));
    for (const job of jobs) assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all(jobs.map(countRuns)), Array(20).fill(1));
  });

  check('it is healthy', async ({ engine }) => {
    const { ok, detail } = await engine.health(neverAborted);
    assert.ok(ok, detail);
    assert.notEqual(detail, '');
  });

  check(
    'it wakes the watcher, if anybody wakes it',
    async ({ engine, newJob, hasNoChangeEvents: isSilent = false }) => {
      let woken = 0;
      engine.onChange(() => woken++);
      const job = await newJob();
      await engine.submit(job, neverAborted);
      await waitUntilFinished(engine, job.jobId);
      await eventually('a wake-up', async () => woken > 0 || isSilent);
    },
  );

  check('it does nothing that was given up before', async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    await assert.rejects(engine.submit(job, AbortSignal.abort()));
    assert.equal((await engine.find([job.jobId], neverAborted)).size, 0);
  });
}

function cancellation(check: EngineTest): void {
  check('before the start: it never runs', async ({ engine, newJob, wholeSystem }) => {
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

  check('right after the submission: one end, and at most one run', async ({ engine, newJob }) => {
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

  check('while it runs', async ({ engine, newJob, cancelReason }) => {
    const job = await newJob(runUntilReleased);
    await engine.submit(job, neverAborted);
    const { startedAt } = await waitUntilRunning(engine, job.jobId);
    await engine.cancel(job.jobId, neverAborted);
    await engine.cancel(job.jobId, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.reason, end.exitCode], ['cancelled', cancelReason, null]);
    assert.equal(end.startedAt ?? startedAt, startedAt);
  });

  check('after the end, and of a job nobody knows: nothing', async ({ engine, newJob }) => {
    const job = await newJob();
    await engine.submit(job, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    await engine.cancel(job.jobId, neverAborted);
    await engine.cancel('nobody', neverAborted);
    assert.deepEqual(await waitUntilFinished(engine, job.jobId), end);
  });
}

function restarts(check: EngineTest): void {
  check('jobs are found again: finished, running and queued', async ({ engine, newJob, reopen, wholeSystem }) => {
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

    const later = await reopen();
    assert.equal((await later.find([done.jobId], neverAborted)).get(done.jobId), id);
    assert.deepEqual(await waitUntilFinished(later, done.jobId), end);
    assert.equal((await waitUntilRunning(later, holding.jobId)).startedAt, startedAt);
    assert.equal((await observeJob(later, waiting.jobId))?.kind, 'queued');
    for (const job of [done, holding, waiting]) await later.submit(job, neverAborted);

    await letFinish(holding);
    for (const job of [holding, waiting])
      assert.equal((await waitUntilFinished(later, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all([done, holding, waiting].map(countRuns)), [1, 1, 1]);
  });

  check('a job that runs can be cancelled by the next engine', async ({ engine, newJob, reopen }) => {
    const job = await newJob(runUntilReleased);
    await engine.submit(job, neverAborted);
    await waitUntilRunning(engine, job.jobId);
    const later = await reopen();
    await later.cancel(job.jobId, neverAborted);
    assert.equal((await waitUntilFinished(later, job.jobId)).outcome, 'cancelled');
  });

  check(
    'what is forgotten stays forgotten, or finished',
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
