import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import type { JobEnd } from '../../../../src/domain/jobs/job.ts';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { eventually, neverAborted, waitUntilRunning } from '../../../engines/observing.ts';
import { countRuns, letFinish, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import { type OwnClusterHarness, ownClusterHarness } from './own-cluster.ts';

/**
 * slurmctld removes finished jobs from the queue every 10 s, and enforces a time limit after 60 to 90 s. The tests wait for
 * that at the same time: slurmdbd is shared, because it takes 4 s to start, and each test has its own nodes.
 */
describe('ends of jobs that have left the queue, read by sacct', { concurrency: true }, () => {
  let harness: OwnClusterHarness;
  before(async () => {
    const extraConf = [
      'PreemptType=preempt/partition_prio',
      'PreemptMode=CANCEL',
      'PartitionName=shared Nodes=n1 MaxTime=INFINITE State=UP',
      'PartitionName=pair Nodes=n2,n3 MaxTime=INFINITE State=UP',
      'PartitionName=low Nodes=n4 MaxTime=INFINITE State=UP',
      'PartitionName=high Nodes=n4 PriorityTier=10 MaxTime=INFINITE State=UP',
      'PartitionName=failing Nodes=n5 MaxTime=INFINITE State=UP',
    ];
    harness = await ownClusterHarness({ nodes: 5, database: true, minJobAge: 2, accounting: 'sacct', extraConf });
  });
  after(() => harness.close());

  const shared = { site: { partition: 'shared' } };

  /** Waits until the job has left the queue, then reads its end with a new engine, like a restarted Bursar. */
  async function readEnd(job: EngineJob, ref: string): Promise<JobEnd> {
    const { cluster, reopen } = harness;
    const refs = () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i').split('\n');
    await eventually(`${ref} has left the queue`, async () => !refs().includes(ref));
    const engine = await reopen();
    const expected = new Map([[job.jobId, ref]]);
    return await eventually(`sacct reports ${ref}`, async () => {
      const observation = (await engine.observe(expected, neverAborted)).find(({ jobId }) => jobId === job.jobId);
      return observation?.kind === 'finished' && observation;
    });
  }

  const submit = async (overrides: Parameters<OwnClusterHarness['newJob']>[0]) => {
    const job = await harness.newJob(overrides);
    return { job, ref: await withAutomaticRelease(harness.engine).submit(job, neverAborted) };
  };

  test('reads success, an exit code and a signal, with the resources used', async () => {
    const cases = [
      { command: 'sleep 2', end: ['succeeded', 'exit code 0', 0] },
      { command: 'sleep 2; exit 3', end: ['failed', 'exit code 3', 3] },
      { command: 'sleep 2; ulimit -c 0; kill -SEGV $$', end: ['failed', 'killed by SIGSEGV', null] },
    ];
    const jobs = await Promise.all(
      cases.map(({ command }) => submit({ ...shellLine(command), ...shared, coresPerNode: 3 })),
    );
    for (const [index, { job, ref }] of jobs.entries()) {
      const { outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds, allocation } = await readEnd(job, ref);
      assert.deepEqual([outcome, reason, exitCode], cases[index]?.end);
      assert.ok(startedAt !== null && endedAt - startedAt === elapsedSeconds * 1000, `${startedAt} ${endedAt}`);
      assert.ok(elapsedSeconds >= 2);
      assert.deepEqual(allocation, { nodes: 1, cores: 3 });
    }
  });

  test('reads cancellations of a held, a pending and a running job, and who cancelled them', async () => {
    const { engine, newJob, cluster } = harness;
    const pair = { site: { partition: 'pair' } };
    const held = await newJob();
    const first = await engine.submit(held, neverAborted);
    const running = await submit({ ...runUntilReleased, ...pair, nodes: 2, coresPerNode: 16 });
    await waitUntilRunning(engine, running.job.jobId);
    const pending = await submit({ ...runUntilReleased, ...pair });
    cluster.run('scancel', first, pending.ref);
    // Afterwards, because the pending job would start on its nodes.
    cluster.run('scancel', running.ref);
    for (const [job, ref] of [
      [held, first],
      [pending.job, pending.ref],
    ] as const) {
      const end = await readEnd(job, ref);
      assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
      assert.equal(end.reason, `cancelled (CANCELLED by ${process.getuid?.()})`);
      assert.equal(await countRuns(job), 0);
    }
    const end = await readEnd(running.job, running.ref);
    assert.deepEqual([end.outcome, end.reason], ['cancelled', `cancelled (CANCELLED by ${process.getuid?.()})`]);
    assert.deepEqual(end.allocation, { nodes: 2, cores: 32 });
    assert.ok(end.startedAt !== null && end.elapsedSeconds >= 1);
  });

  test('reads a launch failure and a preemption', async () => {
    const { engine, newJob } = harness;
    const job = await newJob(shared);
    const unstarted = { ...job, workspace: { ...job.workspace, stdout: '/proc/nowhere/stdout' } };
    const ref = await withAutomaticRelease(engine).submit(unstarted, neverAborted);
    const first = await submit({ ...runUntilReleased, coresPerNode: 16, site: { partition: 'low' } });
    await waitUntilRunning(engine, first.job.jobId);
    const second = await submit({ ...shellLine('true'), coresPerNode: 16, site: { partition: 'high' } });
    const [launch, preempted, winner] = [
      await readEnd(job, ref),
      await readEnd(first.job, first.ref),
      await readEnd(second.job, second.ref),
    ];
    assert.deepEqual([launch.outcome, launch.startedAt, launch.elapsedSeconds], ['node_failed', null, 0]);
    assert.deepEqual([preempted.outcome, preempted.reason.includes('PREEMPTED')], ['preempted', true]);
    assert.equal(winner.outcome, 'succeeded');
  });

  test('reads that a job was killed by a signal that looks like a launch failure, if it ran for a minute', async () => {
    const command = 'sleep 62; kill -53 $PPID';
    const { job, ref } = await submit({ ...shellLine(command), ...shared, runtimeSeconds: 600 });
    const { outcome, reason, elapsedSeconds, startedAt } = await readEnd(job, ref);
    assert.deepEqual([outcome, reason], ['failed', 'killed by signal 53']);
    assert.ok(elapsedSeconds >= 62 && startedAt !== null, 'the time is charged');
  });

  test('reads the end of a second start, during and after the first one', async () => {
    const { engine, newJob } = harness;
    const first = await submit({ ...runUntilReleased, ...shared });
    await waitUntilRunning(engine, first.job.jobId);
    const startAgain = async () => {
      const second = { ...(await newJob(shared)), workspace: first.job.workspace };
      return await readEnd(second, await withAutomaticRelease(engine).submit(second, neverAborted));
    };
    await eventually('the job runs', async () => (await countRuns(first.job)) === 1);
    const early = await startAgain();
    assert.deepEqual([early.outcome, early.startedAt, early.elapsedSeconds], ['node_failed', null, 0]);
    assert.match(early.reason, /^Slurm started the job a second time, which was prevented/);
    await letFinish(first.job);
    assert.equal((await readEnd(first.job, first.ref)).outcome, 'succeeded');
    assert.equal((await startAgain()).outcome, 'succeeded');
    assert.equal(await countRuns(first.job), 1);
  });

  test('reads a time limit that was reached', async () => {
    const { job, ref } = await submit({ ...shellLine('sleep 600'), ...shared, runtimeSeconds: 60 });
    const end = await readEnd(job, ref);
    assert.equal(end.outcome, 'timed_out');
    assert.match(end.reason, /TIMEOUT/);
    assert.ok(end.elapsedSeconds >= 60);
  });

  test('reads the failure of a node', async () => {
    const { engine, cluster } = harness;
    const { job, ref } = await submit({ ...runUntilReleased, site: { partition: 'failing' } });
    await waitUntilRunning(engine, job.jobId);
    await eventually('the job has started', async () => (await countRuns(job)) === 1);
    await cluster.stopNode('n5');
    cluster.run('scontrol', 'update', 'NodeName=n5', 'State=DOWN', 'Reason=test');
    const end = await readEnd(job, ref);
    assert.equal(end.outcome, 'node_failed');
    assert.match(end.reason, /NODE_FAIL/);
  });
});
