import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import { describe } from 'node:test';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import {
  eventually,
  neverAborted,
  observeAll,
  observeJob,
  waitUntilFinished,
  waitUntilRunning,
} from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased } from '../../../engines/test-jobs.ts';
import { type SlurmHarness, type SlurmHarnessOptions, slurmTest } from './slurm-harness.ts';

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

/** Submits a job under the same name without the engine, like a submission whose response was lost. */
function submitDuplicate({ cluster }: SlurmHarness, job: EngineJob): string {
  const script = `#!/bin/sh\necho ran >> ${job.workspace.directory}/runs\n`;
  const argv = ['--hold', '--parsable', '-J', job.jobId, '-o', '/dev/null'];
  const env = { ...cluster.env, PATH: process.env.PATH };
  return execFileSync('sbatch', argv, { input: script, env, encoding: 'utf8' }).trim();
}

describe('a submission whose response is lost', { concurrency: true }, () => {
  // Either Bursar or sbatch ("Socket timed out") gives up first.
  for (const [program, commandTimeoutMs, messageTimeout] of [
    ['Bursar', 4_000, 10],
    ['sbatch', 30_000, 8],
  ] as const) {
    let onSbatch = () => {};
    const onCommand = (name: string) => name === 'sbatch' && onSbatch();
    const options: SlurmHarnessOptions = {
      commandTimeoutMs,
      onCommand,
      extraConf: [`MessageTimeout=${messageTimeout}`],
    };
    slurmTest(`is found again after the controller stalled until ${program} timed out`, options, async (harness) => {
      const { newJob, cluster, commands } = harness;
      const job = await newJob(runOnce);
      onSbatch = () => cluster.pauseController();
      await assert.rejects(harness.engine.submit(job, neverAborted), transient);
      onSbatch = () => {};
      cluster.resumeController();
      // Later commands must not time out.
      options.commandTimeoutMs = 30_000;
      const engine = await harness.reopen();
      await eventually('the job exists', async () => (await engine.find([job], neverAborted)).size === 1);
      await withAutomaticRelease(engine).submit(job, neverAborted);
      assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
      assert.equal(await countRuns(job), 1);
      assert.equal(commands.filter((name) => name === 'sbatch').length, 1);
    });
  }

  slurmTest('is repeated after a controller that was killed has cut the connection', {}, async (harness) => {
    const { engine, newJob, cluster, commands } = harness;
    // The engine then knows that the next jobs are new, and calls nothing but sbatch.
    await observeAll(engine);
    await cluster.killController();
    // In the place of the controller, to cut the connection at different moments.
    const answers: ((socket: Socket) => unknown)[] = [
      (socket) => socket.end('not a message of Slurm, and long enough for a header'),
      (socket) => socket.once('data', () => socket.end(Buffer.from([0, 0, 1, 0, 1, 2]))),
      (socket) => socket.once('data', () => socket.resetAndDestroy()),
      (socket) => socket.destroy(),
    ];
    const jobs: EngineJob[] = [];
    for (const answer of answers) {
      const server = createServer((socket) => answer(socket.on('error', () => undefined)));
      server.listen(cluster.controllerPort, '127.0.0.1');
      await once(server, 'listening');
      const job = await newJob(runOnce);
      try {
        await assert.rejects(engine.submit(job, neverAborted, { isFirstTry: true }), transient);
      } finally {
        server.close();
        await once(server, 'close');
      }
      jobs.push(job);
    }
    assert.deepEqual(commands, ['squeue', ...answers.map(() => 'sbatch')]);
    await cluster.startController();
    for (const job of jobs) {
      await withAutomaticRelease(engine).submit(job, neverAborted);
      assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
      assert.equal(await countRuns(job), 1);
    }
  });

  slurmTest('keeps the first of two jobs with one name, and cancels the other', {}, async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const [first, second] = [submitDuplicate(harness, job), submitDuplicate(harness, job)];
    assert.equal((await engine.find([job], neverAborted)).get(job.jobId), first);
    assert.equal(await engine.submit(job, neverAborted), first);
    await engine.release(new Map([[job.jobId, first]]), neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
    // A cancelled duplicate is not reported.
    const observations = await engine.observe(new Map([[job.jobId, first]]), neverAborted);
    assert.deepEqual([observations.map(({ ref }) => ref), second], [[first], '2']);
  });

  slurmTest('is found although the caller has forgotten it, as after the restore of a backup', {}, async (harness) => {
    const { engine, newJob, reopen, commands } = harness;
    const job = await newJob(runOnce);
    const ref = await engine.submit(job, neverAborted, { isFirstTry: true });
    assert.equal(await (await reopen()).submit(job, neverAborted, { isFirstTry: true }), ref);
    assert.equal(commands.filter((name) => name === 'sbatch').length, 1);
  });

  slurmTest('reports a duplicate, and discards it by its id', {}, async (harness) => {
    const { engine, newJob } = harness;
    const job = await newJob(runOnce);
    const ref = await engine.submit(job, neverAborted);
    const duplicate = submitDuplicate(harness, job);
    const expected = new Map([[job.jobId, ref]]);
    const refs = (await engine.observe(expected, neverAborted)).map((observation) => observation.ref);
    assert.deepEqual(refs, [ref, duplicate]);
    await engine.discard([duplicate], neverAborted);
    await engine.discard([duplicate, '999'], neverAborted);
    await engine.release(expected, neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
  });
});

describe('the Slurm engine', { concurrency: true }, () => {
  // Each command waits for it while the controller is down.
  const defaultTimeout = { extraConf: ['MessageTimeout=10'] };
  slurmTest(
    'throws transient errors while the controller is down, and changes nothing',
    defaultTimeout,
    async (harness) => {
      const { engine, newJob, cluster } = harness;
      const [running, held, next] = [await newJob(runUntilReleased), await newJob(runOnce), await newJob(runOnce)];
      const ref = await withAutomaticRelease(engine).submit(running, neverAborted);
      const { startedAt } = await waitUntilRunning(engine, running.jobId);
      const expected = new Map([[running.jobId, ref]]);
      const heldRefs = new Map([[held.jobId, await engine.submit(held, neverAborted)]]);
      await cluster.stopController();
      await Promise.all([
        assert.rejects(engine.submit(next, neverAborted), transient),
        assert.rejects(engine.observe(expected, neverAborted), transient),
        assert.rejects(engine.find([running], neverAborted), transient),
        assert.rejects(engine.release(heldRefs, neverAborted), transient),
        assert.rejects(engine.cancel(running.jobId, neverAborted), transient),
      ]);
      const { ok, detail } = await engine.health(neverAborted);
      assert.deepEqual([ok, /is down/.test(detail)], [false, true]);
      await cluster.startController();
      assert.equal((await waitUntilRunning(engine, running.jobId)).startedAt, startedAt);
      await letFinish(running);
      await withAutomaticRelease(engine).submit(next, neverAborted);
      await engine.release(heldRefs, neverAborted);
      for (const job of [running, held, next]) {
        assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
        assert.equal(await countRuns(job), 1);
      }
    },
  );

  slurmTest('reads ends from accounting after the controller lost its state and reuses ids', {}, async (harness) => {
    const { engine, newJob, cluster, commands } = harness;
    const [old, lost, other] = [await newJob(runOnce), await newJob(runOnce), await newJob(runOnce)];
    const expected = new Map([[old.jobId, await withAutomaticRelease(engine).submit(old, neverAborted)]]);
    const end = await waitUntilFinished(engine, old.jobId);
    expected.set(lost.jobId, await engine.submit(lost, neverAborted));
    await cluster.wipeController();

    const reusedRef = await engine.submit(other, neverAborted);
    assert.equal(reusedRef, expected.get(old.jobId));
    const before = commands.length;
    const observations = await engine.observe(expected, neverAborted);
    assert.deepEqual(
      observations.find(({ jobId }) => jobId === old.jobId),
      { jobId: old.jobId, ref: reusedRef, kind: 'finished', ...end },
    );
    assert.deepEqual(commands.slice(before), ['squeue', 'sacct']);
    // A job that nobody reports stays unknown, and accounting is not queried again at once.
    assert.equal(
      observations.find(({ jobId }) => jobId === lost.jobId),
      undefined,
    );
    assert.equal((await engine.observe(expected, neverAborted)).length, observations.length);
    assert.equal(commands.at(-1), 'squeue');
    // The id belongs to another job now, which must stay held.
    await engine.release(expected, neverAborted);
    const held = await observeJob(engine, other.jobId);
    assert.ok(held?.kind === 'queued' && held.held);
  });
});

slurmTest('the number of commands is independent of the number of jobs', {}, async ({ engine, newJob, commands }) => {
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
