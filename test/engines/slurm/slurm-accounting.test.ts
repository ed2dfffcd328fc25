import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JobEnd } from '../../../src/domain/jobs/job.ts';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../engine-harness.ts';
import { eventually, neverAborted, waitUntilRunning } from '../observing.ts';
import { countRuns, letFinish, runUntilReleased, shellLine } from '../test-jobs.ts';
import { type SlurmHarness, slurmHarness } from './slurm-harness.ts';

/** A real slurmdbd tells what has become of jobs that left the queue, which they do soon. */
describe('jobs that have left the queue, by sacct', () => {
  let harness: SlurmHarness;
  before(async () => {
    const extraConf = [
      'SlurmdTimeout=4',
      'PreemptType=preempt/partition_prio',
      'PreemptMode=CANCEL',
      'PartitionName=low Nodes=n2 MaxTime=INFINITE State=UP',
      'PartitionName=high Nodes=n2 PriorityTier=10 MaxTime=INFINITE State=UP',
    ];
    harness = await slurmHarness({ database: true, minJobAge: 2, accounting: 'sacct', extraConf });
  });
  after(() => harness.close());

  /** Slurm has let go of it before anybody looks, as when Bursar was away. */
  async function endOf(job: EngineJob, ref: string): Promise<JobEnd> {
    const { cluster, reopen } = harness;
    const refs = () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i').split('\n');
    await eventually(`${ref} has left the queue`, async () => !refs().includes(ref));
    const engine = await reopen();
    const expected = new Map([[job.jobId, ref]]);
    return await eventually(`sacct tells of ${ref}`, async () => {
      const seen = (await engine.observe(expected, neverAborted)).find(({ jobId }) => jobId === job.jobId);
      return seen?.kind === 'finished' && seen;
    });
  }

  const submitted = async (overrides: Parameters<SlurmHarness['newJob']>[0]) => {
    const job = await harness.newJob(overrides);
    return { job, ref: await withAutomaticRelease(harness.engine).submit(job, neverAborted) };
  };

  test('success, an exit code and a signal, with what they used', async () => {
    const cases = [
      { command: 'sleep 2', end: ['succeeded', 'exit code 0', 0] },
      { command: 'sleep 2; exit 3', end: ['failed', 'exit code 3', 3] },
      { command: 'sleep 2; ulimit -c 0; kill -SEGV $$', end: ['failed', 'killed by SIGSEGV', null] },
    ];
    const jobs = await Promise.all(cases.map(({ command }) => submitted({ ...shellLine(command), coresPerNode: 3 })));
    for (const [index, { job, ref }] of jobs.entries()) {
      const { outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds, allocation } = await endOf(job, ref);
      assert.deepEqual([outcome, reason, exitCode], cases[index]?.end);
      assert.ok(startedAt !== null && endedAt - startedAt === elapsedSeconds * 1000, `${startedAt} ${endedAt}`);
      assert.ok(elapsedSeconds >= 2);
      assert.deepEqual(allocation, { nodes: 1, cores: 3 });
    }
  });

  test('cancelled while held, while pending and while running, and by whom', async () => {
    const { engine, newJob, wholeSystem, cluster } = harness;
    const held = await newJob();
    const first = await engine.submit(held, neverAborted);
    const running = await submitted({ ...runUntilReleased, ...wholeSystem });
    await waitUntilRunning(engine, running.job.jobId);
    const pending = await submitted(runUntilReleased);
    cluster.run('scancel', first, pending.ref, running.ref);
    for (const [job, ref] of [
      [held, first],
      [pending.job, pending.ref],
    ] as const) {
      const end = await endOf(job, ref);
      assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
      assert.equal(end.reason, `cancelled (CANCELLED by ${process.getuid?.()})`);
      assert.equal(await countRuns(job), 0);
    }
    const end = await endOf(running.job, running.ref);
    assert.deepEqual([end.outcome, end.reason], ['cancelled', `cancelled (CANCELLED by ${process.getuid?.()})`]);
    assert.deepEqual(end.allocation, { nodes: 2, cores: 32 });
    assert.ok(end.startedAt !== null && end.elapsedSeconds >= 1);
  });

  test('a job that Slurm could not start, and one that had to make room', async () => {
    const { engine, newJob } = harness;
    const job = await newJob();
    const unstarted = { ...job, workspace: { ...job.workspace, stdout: '/proc/nowhere/stdout' } };
    const ref = await withAutomaticRelease(engine).submit(unstarted, neverAborted);
    const first = await submitted({ ...runUntilReleased, coresPerNode: 16, site: { partition: 'low' } });
    await waitUntilRunning(engine, first.job.jobId);
    const second = await submitted({ ...shellLine('true'), coresPerNode: 16, site: { partition: 'high' } });
    const [launch, preempted, winner] = [
      await endOf(job, ref),
      await endOf(first.job, first.ref),
      await endOf(second.job, second.ref),
    ];
    assert.deepEqual([launch.outcome, launch.startedAt, launch.elapsedSeconds], ['node_failed', null, 0]);
    assert.deepEqual([preempted.outcome, preempted.reason.includes('PREEMPTED')], ['preempted', true]);
    assert.equal(winner.outcome, 'succeeded');
  });

  test('a job that is started again while it runs, and one that has ended', async () => {
    const { engine, newJob } = harness;
    const first = await submitted(runUntilReleased);
    await waitUntilRunning(engine, first.job.jobId);
    const startAgain = async () => {
      const again = { ...(await newJob()), workspace: first.job.workspace };
      return await endOf(again, await withAutomaticRelease(engine).submit(again, neverAborted));
    };
    await eventually('it runs', async () => (await countRuns(first.job)) === 1);
    const early = await startAgain();
    assert.deepEqual([early.outcome, early.startedAt, early.elapsedSeconds], ['node_failed', null, 0]);
    assert.match(early.reason, /^Slurm forgot that it had begun and started it again/);
    await letFinish(first.job);
    assert.equal((await endOf(first.job, first.ref)).outcome, 'succeeded');
    assert.equal((await startAgain()).outcome, 'succeeded');
    assert.equal(await countRuns(first.job), 1);
  });

  test('out of time', async () => {
    const { job, ref } = await submitted({ ...shellLine('sleep 600'), runtimeSeconds: 60 });
    const end = await endOf(job, ref);
    assert.equal(end.outcome, 'timed_out');
    assert.match(end.reason, /TIMEOUT/);
    assert.ok(end.elapsedSeconds >= 60);
  });

  test('a job whose node is gone', async () => {
    const { engine, cluster } = harness;
    const { job, ref } = await submitted({ ...runUntilReleased, site: { extraOptions: ['--nodelist=n1'] } });
    await waitUntilRunning(engine, job.jobId);
    await cluster.stopNode('n1');
    const end = await endOf(job, ref);
    assert.equal(end.outcome, 'node_failed');
    assert.match(end.reason, /NODE_FAIL/);
  });
});
