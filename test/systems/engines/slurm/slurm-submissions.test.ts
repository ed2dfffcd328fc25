import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { describe } from 'node:test';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { eventually, neverAborted, observeAll, waitUntilFinished } from '../../../engines/observing.ts';
import { countRuns, runOnce } from '../../../engines/test-jobs.ts';
import { type SlurmHarness, slurmTest } from './slurm-harness.ts';

/** Submits a job under the same name without the engine, like a submission whose response was lost. */
function submitDuplicate({ cluster }: SlurmHarness, job: EngineJob): string {
  const script = `#!/bin/sh\necho ran >> ${job.workspace.directory}/runs\n`;
  const argv = ['--hold', '--parsable', '-J', job.jobId, '-o', '/dev/null', '-p', cluster.partition];
  const env = { ...cluster.env, PATH: process.env.PATH };
  return execFileSync('sbatch', argv, { input: script, env, encoding: 'utf8' }).trim();
}

describe('a submission whose response is lost', { concurrency: true }, () => {
  slurmTest('keeps the first of two jobs with one name, and cancels the other', async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const first = submitDuplicate(harness, job);
    submitDuplicate(harness, job);
    assert.equal((await engine.find([job], neverAborted)).get(job.jobId), first);
    assert.equal(await engine.submit(job, neverAborted), first);
    await engine.release(new Map([[job.jobId, first]]), neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
    // A cancelled duplicate is not reported.
    const observations = await engine.observe(new Map([[job.jobId, first]]), neverAborted);
    assert.deepEqual(
      observations.map(({ ref }) => ref),
      [first],
    );
  });

  slurmTest('is found although the caller has forgotten it, as after the restore of a backup', async (harness) => {
    const { engine, newJob, reopen, commands } = harness;
    const job = await newJob(runOnce);
    const ref = await engine.submit(job, neverAborted, { isFirstTry: true });
    assert.equal(await (await reopen()).submit(job, neverAborted, { isFirstTry: true }), ref);
    assert.equal(commands.filter((name) => name === 'sbatch').length, 1);
  });

  slurmTest('reports a duplicate, and discards it by its id', async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const ref = await engine.submit(job, neverAborted);
    const duplicate = submitDuplicate(harness, job);
    const expected = new Map([[job.jobId, ref]]);
    const refs = (await engine.observe(expected, neverAborted)).map((observation) => observation.ref);
    assert.deepEqual(refs, [ref, duplicate]);
    await engine.discard([duplicate], neverAborted);
    // Slurm never gives the second id.
    await engine.discard([duplicate, '0'], neverAborted);
    await engine.release(expected, neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
  });

  slurmTest('is not taken for a submission once it is discarded', async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const duplicate = submitDuplicate(harness, job);
    await engine.observe(new Map(), neverAborted);
    await engine.discard([duplicate], neverAborted);
    assert.deepEqual(await engine.find([job], neverAborted), new Map());
    const ref = await engine.submit(job, neverAborted);
    assert.notEqual(ref, duplicate);
    await engine.release(new Map([[job.jobId, ref]]), neverAborted);
    const finished = async () =>
      (await engine.observe(new Map([[job.jobId, ref]]), neverAborted)).find(({ kind }) => kind === 'finished');
    await eventually('the job has finished', async () => (await finished()) !== undefined);
    assert.equal(await countRuns(job), 1);
  });
});

slurmTest('the number of commands is independent of the number of jobs', async ({ engine, newJob, commands }) => {
  const jobs = await Promise.all(Array.from({ length: 300 }, () => newJob()));
  const expected = new Map<string, string>();
  const waiting = [...jobs];
  const submitWaiting = async () => {
    for (let job = waiting.pop(); job !== undefined; job = waiting.pop())
      expected.set(job.jobId, await engine.submit(job, neverAborted, { isFirstTry: true }));
  };
  await Promise.all(Array.from({ length: 8 }, submitWaiting));
  assert.equal(commands.filter((name) => name === 'squeue').length, 1);
  assert.equal(commands.length, 301);
  await new Promise((resolve) => setTimeout(resolve, 1000)); // the ids are confirmed by squeue then

  const commandsDuring = async (work: () => Promise<unknown>) => {
    const before = commands.length;
    await work();
    return commands.slice(before);
  };
  assert.deepEqual(await commandsDuring(() => engine.observe(expected, neverAborted)), ['squeue']);
  assert.deepEqual(await commandsDuring(() => engine.find(jobs, neverAborted)), ['squeue']);
  const unwanted = [...expected.values()].slice(0, 200);
  assert.deepEqual(await commandsDuring(() => engine.discard(unwanted, neverAborted)), ['squeue', 'scancel']);
  assert.deepEqual(await commandsDuring(() => engine.release(expected, neverAborted)), ['squeue', 'scontrol']);
  // Released jobs are never discarded.
  assert.deepEqual(await commandsDuring(() => engine.discard([...expected.values()], neverAborted)), ['squeue']);
  await eventually('all jobs have finished', async () =>
    (await observeAll(engine)).every(({ kind }) => kind === 'finished'),
  );
});
