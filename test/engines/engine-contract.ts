import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { type Check, drive, type EngineHarness } from './engine-harness.ts';
import { count, hold, release, runsOf } from './jobs.ts';
import { eventually, look, never, observationOf, untilFinished, untilRunning } from './observing.ts';
import { outcomes } from './outcome-contract.ts';

/** The guarantees of `Engine`, for any engine: talks through the interface and the job's files alone. */
export function engineContract(name: string, makeHarness: () => Promise<EngineHarness>): void {
  const check: Check = (title, body) =>
    void test(title, async () => {
      const harness = await makeHarness();
      try {
        await body({ ...harness, engine: drive(harness.engine), reopen: async () => drive(await harness.reopen()) });
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

function submission(check: Check): void {
  check('a job that is submitted five times runs once', async ({ engine, newJob }) => {
    const job = await newJob(count);
    const ids = await Promise.all([1, 2, 3].map(() => engine.submit(job, never)));
    ids.push(await engine.submit(job, never));
    await untilFinished(engine, job.jobId);
    ids.push(await engine.submit(job, never));
    assert.equal(new Set(ids).size, 1);
    await untilFinished(engine, job.jobId);
    assert.equal(await runsOf(job), 1);
  });

  check('it finds the jobs it has, and no others', async ({ engine, newJob }) => {
    const job = await newJob();
    const other = await newJob();
    assert.equal((await engine.find([job.jobId], never)).size, 0);
    const id = await engine.submit(job, never);
    assert.deepEqual([...(await engine.find([job.jobId, other.jobId], never))], [[job.jobId, id]]);
  });

  check(
    'it observes a job on its way, and its end until it is forgotten',
    async ({ engine, newJob, keepsForgotten }) => {
      const job = await newJob(hold);
      assert.deepEqual(await look(engine), []);
      await engine.submit(job, never);
      const { startedAt } = await untilRunning(engine, job.jobId);
      await engine.forget([job.jobId, 'nobody'], never);
      assert.equal((await observationOf(engine, job.jobId))?.kind, 'running');
      await release(job);
      const end = await untilFinished(engine, job.jobId);
      assert.equal(end.startedAt, startedAt);
      assert.ok(end.endedAt >= startedAt);
      assert.ok(Number.isInteger(end.elapsedSeconds) && end.elapsedSeconds >= 1);
      assert.deepEqual(await untilFinished(engine, job.jobId), end);
      await engine.forget([job.jobId, 'nobody'], never);
      assert.deepEqual(await look(engine), []);
      if (!keepsForgotten) assert.equal((await engine.find([job.jobId], never)).size, 0);
    },
  );

  check('twenty jobs at once all run, once each', async ({ engine, newJob }) => {
    const jobs = await Promise.all(Array.from({ length: 20 }, () => newJob(count)));
    await Promise.all(jobs.map((job) => engine.submit(job, never)));
    for (const job of jobs) assert.equal((await untilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all(jobs.map(runsOf)), Array(20).fill(1));
  });

  check('it is healthy', async ({ engine }) => {
    const { ok, detail } = await engine.health(never);
    assert.ok(ok, detail);
    assert.notEqual(detail, '');
  });

  check('it wakes the watcher, if anybody wakes it', async ({ engine, newJob, isSilent = false }) => {
    let woken = 0;
    engine.onChange(() => woken++);
    const job = await newJob();
    await engine.submit(job, never);
    await untilFinished(engine, job.jobId);
    await eventually('a wake-up', async () => woken > 0 || isSilent);
  });

  check('it does nothing that was given up before', async ({ engine, newJob }) => {
    const job = await newJob(count);
    await assert.rejects(engine.submit(job, AbortSignal.abort()));
    assert.equal((await engine.find([job.jobId], never)).size, 0);
  });
}

function cancellation(check: Check): void {
  check('before the start: it never runs', async ({ engine, newJob, wholeSystem }) => {
    const first = await newJob({ ...hold, ...wholeSystem });
    const second = await newJob(count);
    await engine.submit(first, never);
    await untilRunning(engine, first.jobId);
    await engine.submit(second, never);
    assert.equal((await observationOf(engine, second.jobId))?.kind, 'queued');
    await engine.cancel(second.jobId, never);
    const end = await untilFinished(engine, second.jobId);
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
    await release(first);
    assert.equal((await untilFinished(engine, first.jobId)).outcome, 'succeeded');
    assert.equal(await runsOf(second), 0);
  });

  check('right after the submission: one end, and at most one run', async ({ engine, newJob }) => {
    const jobs = await Promise.all([1, 2, 3, 4].map(() => newJob(hold)));
    await Promise.all(
      jobs.map(async (job) => {
        await engine.submit(job, never);
        await engine.cancel(job.jobId, never);
      }),
    );
    for (const job of jobs) assert.equal((await untilFinished(engine, job.jobId)).outcome, 'cancelled');
    for (const job of jobs) assert.ok((await runsOf(job)) <= 1);
  });

  check('while it runs', async ({ engine, newJob, cancelReason }) => {
    const job = await newJob(hold);
    await engine.submit(job, never);
    const { startedAt } = await untilRunning(engine, job.jobId);
    await engine.cancel(job.jobId, never);
    await engine.cancel(job.jobId, never);
    const end = await untilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.reason, end.exitCode], ['cancelled', cancelReason, null]);
    assert.equal(end.startedAt ?? startedAt, startedAt);
  });

  check('after the end, and of a job nobody knows: nothing', async ({ engine, newJob }) => {
    const job = await newJob();
    await engine.submit(job, never);
    const end = await untilFinished(engine, job.jobId);
    await engine.cancel(job.jobId, never);
    await engine.cancel('nobody', never);
    assert.deepEqual(await untilFinished(engine, job.jobId), end);
  });
}

function restarts(check: Check): void {
  check('jobs are found again: finished, running and queued', async ({ engine, newJob, reopen, wholeSystem }) => {
    const [done, holding, waiting] = [
      await newJob(count),
      await newJob({ ...hold, ...wholeSystem }),
      await newJob(count),
    ];
    const id = await engine.submit(done, never);
    const end = await untilFinished(engine, done.jobId);
    await engine.submit(holding, never);
    const { startedAt } = await untilRunning(engine, holding.jobId);
    await engine.submit(waiting, never);

    const later = await reopen();
    assert.equal((await later.find([done.jobId], never)).get(done.jobId), id);
    assert.deepEqual(await untilFinished(later, done.jobId), end);
    assert.equal((await untilRunning(later, holding.jobId)).startedAt, startedAt);
    assert.equal((await observationOf(later, waiting.jobId))?.kind, 'queued');
    for (const job of [done, holding, waiting]) await later.submit(job, never);

    await release(holding);
    for (const job of [holding, waiting]) assert.equal((await untilFinished(later, job.jobId)).outcome, 'succeeded');
    assert.deepEqual(await Promise.all([done, holding, waiting].map(runsOf)), [1, 1, 1]);
  });

  check('a job that runs can be cancelled by the next engine', async ({ engine, newJob, reopen }) => {
    const job = await newJob(hold);
    await engine.submit(job, never);
    await untilRunning(engine, job.jobId);
    const later = await reopen();
    await later.cancel(job.jobId, never);
    assert.equal((await untilFinished(later, job.jobId)).outcome, 'cancelled');
  });

  check('what is forgotten stays forgotten, or finished', async ({ engine, newJob, reopen, keepsForgotten }) => {
    const job = await newJob();
    await engine.submit(job, never);
    await untilFinished(engine, job.jobId);
    await engine.forget([job.jobId], never);
    const kinds = (await look(await reopen())).map(({ kind }) => kind);
    assert.deepEqual(kinds, keepsForgotten ? ['finished'] : []);
  });
}
