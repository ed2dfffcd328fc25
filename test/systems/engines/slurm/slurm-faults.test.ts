import assert from 'node:assert/strict';
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
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
import type { SlurmCluster } from '../../../support/slurm-cluster.ts';
import { ownClusterTest } from './own-cluster.ts';

const transient = { name: 'BursarError', code: 'unavailable', transient: true };

describe('a submission whose response is lost', { concurrency: true }, () => {
  /** Bytes that the controller has not read. The four that announce the length of a message come first, in a write of their own. */
  const countUnreadBytes = ({ controllerPort }: SlurmCluster) => {
    const listening = '0A';
    const port = `:${controllerPort.toString(16).padStart(4, '0')}`.toUpperCase();
    const rows = readFileSync('/proc/net/tcp', 'utf8').split('\n');
    const unread = rows.map((row) => {
      const [, local, , state, queues] = row.trim().split(/\s+/);
      return local?.endsWith(port) && state !== listening ? Number.parseInt(queues?.split(':')[1] ?? '0', 16) : 0;
    });
    return Math.max(...unread);
  };
  const setMessageTimeout = ({ env }: SlurmCluster, seconds: number) => {
    const conf = readFileSync(env.SLURM_CONF, 'utf8');
    writeFileSync(env.SLURM_CONF, conf.replace(/^MessageTimeout=.*/m, `MessageTimeout=${seconds}`));
  };

  // Either Bursar or sbatch ("Socket timed out") gives up first.
  for (const program of ['Bursar', 'sbatch']) {
    let onSbatch = () => {};
    ownClusterTest(
      `is found again after the controller stalled until ${program} gave up`,
      { onCommand: (name: string) => name === 'sbatch' && onSbatch() },
      async (harness) => {
        const { newJob, cluster, commands } = harness;
        const job = await newJob(runOnce);
        let isPaused = false;
        onSbatch = () => {
          cluster.pauseController();
          // Only for this command: on a busy machine others take longer.
          if (program === 'sbatch') setMessageTimeout(cluster, 4);
          isPaused = true;
        };
        const bursar = new AbortController();
        const giveUp = async () => {
          await eventually('sbatch has sent the job', async () => isPaused && countUnreadBytes(cluster) > 4);
          if (program === 'Bursar') bursar.abort();
        };
        await Promise.all([assert.rejects(harness.engine.submit(job, bursar.signal), transient), giveUp()]);
        onSbatch = () => {};
        setMessageTimeout(cluster, 25);
        cluster.resumeController();
        const engine = await harness.reopen();
        await eventually('the job exists', async () => (await engine.find([job], neverAborted)).size === 1);
        await withAutomaticRelease(engine).submit(job, neverAborted);
        assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
        assert.equal(await countRuns(job), 1);
        assert.equal(commands.filter((name) => name === 'sbatch').length, 1);
      },
    );
  }

  ownClusterTest('is repeated after a controller that was killed has cut the connection', {}, async (harness) => {
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
});

describe('the Slurm engine', { concurrency: true }, () => {
  // Each command waits for it while the controller is down.
  const defaultTimeout = { extraConf: ['MessageTimeout=10'] };
  ownClusterTest(
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

  let frozenTime: number | null = null;
  ownClusterTest(
    'reads ends from accounting after the controller lost its state and reuses ids',
    { now: () => frozenTime ?? Date.now() },
    async (harness) => {
      const { engine, newJob, cluster, commands } = harness;
      const [old, lost, other] = [await newJob(runOnce), await newJob(runOnce), await newJob(runOnce)];
      const expected = new Map([[old.jobId, await withAutomaticRelease(engine).submit(old, neverAborted)]]);
      const end = await waitUntilFinished(engine, old.jobId);
      expected.set(lost.jobId, await engine.submit(lost, neverAborted));
      await cluster.wipeController();

      const reusedRef = await engine.submit(other, neverAborted);
      assert.equal(reusedRef, expected.get(old.jobId));
      const before = commands.length;
      // Accounting is queried again two seconds after the beginning of a query, which can take longer.
      frozenTime = Date.now();
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
      frozenTime = null;
      // The id belongs to another job now, which must stay held.
      await engine.release(expected, neverAborted);
      const held = await observeJob(engine, other.jobId);
      assert.ok(held?.kind === 'queued' && held.held);
    },
  );
});
