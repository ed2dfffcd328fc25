import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe } from 'node:test';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../engine-harness.ts';
import { eventually, neverAborted, observeAll, observeJob, waitUntilFinished, waitUntilRunning } from '../observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased } from '../test-jobs.ts';
import { type SlurmHarness, slurmTest } from './slurm-harness.ts';

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

/** Submits under the job's name behind the engine's back, as a submission does whose answer is lost. */
function submitAside({ cluster }: SlurmHarness, job: EngineJob): string {
  const script = `#!/bin/sh\necho ran >> ${job.workspace.directory}/runs\n`;
  const argv = ['--hold', '--parsable', '-J', job.jobId, '-o', '/dev/null'];
  const env = { ...cluster.env, PATH: process.env.PATH };
  return execFileSync('sbatch', argv, { input: script, env, encoding: 'utf8' }).trim();
}

describe('a submission whose answer is lost', () => {
  // Both are real: Bursar gives up first, or sbatch does ("Socket timed out").
  for (const [who, commandTimeoutMs, messageTimeout] of [
    ['Bursar', 1_000, 10],
    ['sbatch', 30_000, 2],
  ] as const) {
    let onSbatch = () => {};
    const onCommand = (name: string) => name === 'sbatch' && onSbatch();
    const options = { commandTimeoutMs, onCommand, extraConf: [`MessageTimeout=${messageTimeout}`] };
    slurmTest(`the controller stalls until ${who} gives up`, options, async (harness) => {
      const { engine, newJob, cluster, commands } = harness;
      const job = await newJob(runOnce);
      onSbatch = () => cluster.pauseController();
      await assert.rejects(engine.submit(job, neverAborted), transient);
      onSbatch = () => {};
      cluster.resumeController();
      await eventually('the job is there', async () => (await engine.find([job.jobId], neverAborted)).size === 1);
      await withAutomaticRelease(engine).submit(job, neverAborted);
      assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
      assert.equal(await countRuns(job), 1);
      assert.equal(commands.filter((name) => name === 'sbatch').length, 1);
    });
  }

  slurmTest('two under one name: the first is taken, the other one ended', {}, async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const [first, second] = [submitAside(harness, job), submitAside(harness, job)];
    assert.equal((await engine.find([job.jobId], neverAborted)).get(job.jobId), first);
    assert.equal(await engine.submit(job, neverAborted), first);
    await engine.release(new Map([[job.jobId, first]]), neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
    // What is over of a stray is not worth telling.
    const told = await engine.observe(new Map([[job.jobId, first]]), neverAborted);
    assert.deepEqual([told.map(({ ref }) => ref), second], [[first], '2']);
  });

  slurmTest('a stray is told of, and discarded by its id', {}, async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const ref = await engine.submit(job, neverAborted);
    const stray = submitAside(harness, job);
    const expected = new Map([[job.jobId, ref]]);
    const refs = (await engine.observe(expected, neverAborted)).map((seen) => seen.ref);
    assert.deepEqual(refs, [ref, stray]);
    await engine.discard([stray], neverAborted);
    await engine.discard([stray, '999'], neverAborted);
    await engine.release(expected, neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
  });
});

describe('the controller of Slurm', () => {
  const quick = { extraConf: ['MessageTimeout=2'] };
  slurmTest('while it is down everything is to be tried again, and nothing changes', quick, async (harness) => {
    const { engine, newJob, cluster } = harness;
    const [running, next] = [await newJob(runUntilReleased), await newJob(runOnce)];
    const ref = await withAutomaticRelease(engine).submit(running, neverAborted);
    const { startedAt } = await waitUntilRunning(engine, running.jobId);
    const expected = new Map([[running.jobId, ref]]);
    await cluster.stopController();
    await Promise.all([
      assert.rejects(engine.submit(next, neverAborted), transient),
      assert.rejects(engine.observe(expected, neverAborted), transient),
      assert.rejects(engine.find([running.jobId], neverAborted), transient),
      assert.rejects(engine.release(expected, neverAborted), transient),
      assert.rejects(engine.cancel(running.jobId, neverAborted), transient),
    ]);
    const { ok, detail } = await engine.health(neverAborted);
    assert.deepEqual([ok, /is down/.test(detail)], [false, true]);
    await cluster.startController();
    assert.equal((await waitUntilRunning(engine, running.jobId)).startedAt, startedAt);
    await letFinish(running);
    await withAutomaticRelease(engine).submit(next, neverAborted);
    for (const job of [running, next]) {
      assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
      assert.equal(await countRuns(job), 1);
    }
  });

  slurmTest('it forgets: ids are given again, and ends come from accounting', {}, async (harness) => {
    const { engine, newJob, cluster, commands } = harness;
    const [old, lost, other] = [await newJob(runOnce), await newJob(runOnce), await newJob(runOnce)];
    const expected = new Map([[old.jobId, await withAutomaticRelease(engine).submit(old, neverAborted)]]);
    const end = await waitUntilFinished(engine, old.jobId);
    expected.set(lost.jobId, await engine.submit(lost, neverAborted));
    await cluster.wipeController();

    const again = await engine.submit(other, neverAborted);
    assert.equal(again, expected.get(old.jobId));
    const before = commands.length;
    const seen = await engine.observe(expected, neverAborted);
    assert.deepEqual(
      seen.find(({ jobId }) => jobId === old.jobId),
      { jobId: old.jobId, ref: again, kind: 'finished', ...end },
    );
    assert.deepEqual(commands.slice(before), ['squeue', 'sacct']);
    // Nothing is concluded from silence, and what accounting does not know it is not asked at once again.
    assert.equal(
      seen.find(({ jobId }) => jobId === lost.jobId),
      undefined,
    );
    assert.equal((await engine.observe(expected, neverAborted)).length, seen.length);
    assert.equal(commands.at(-1), 'squeue');
    // The id is another job's by now.
    await engine.release(expected, neverAborted);
    const held = await observeJob(engine, other.jobId);
    assert.ok(held?.kind === 'queued' && held.held);
  });
});

slurmTest('the number of commands does not grow with the number of jobs', {}, async ({ engine, newJob, commands }) => {
  const jobs = await Promise.all(Array.from({ length: 300 }, () => newJob()));
  const expected = new Map<string, string>();
  const waiting = [...jobs];
  const submitSome = async () => {
    for (let job = waiting.pop(); job !== undefined; job = waiting.pop())
      expected.set(job.jobId, await engine.submit(job, neverAborted));
  };
  await Promise.all(Array.from({ length: 8 }, submitSome));

  const counted = async (work: () => Promise<unknown>) => {
    const before = commands.length;
    await work();
    return commands.slice(before);
  };
  assert.deepEqual(await counted(() => engine.observe(expected, neverAborted)), ['squeue']);
  assert.deepEqual(await counted(() => engine.find([...expected.keys()], neverAborted)), ['squeue']);
  const strays = [...expected.values()].slice(0, 200);
  assert.deepEqual(await counted(() => engine.discard(strays, neverAborted)), ['squeue', 'scancel']);
  assert.deepEqual(await counted(() => engine.release(expected, neverAborted)), ['squeue', 'scontrol']);
  // What has been released is no stray.
  assert.deepEqual(await counted(() => engine.discard([...expected.values()], neverAborted)), ['squeue']);
  await eventually('all are over', async () => (await observeAll(engine)).every(({ kind }) => kind === 'finished'));
});
