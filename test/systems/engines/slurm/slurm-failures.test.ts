import assert from 'node:assert/strict';
import { cp, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { describe } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isUncertain, reconcileEnd } from '../../../../src/domain/jobs/end-record.ts';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { eventually, neverAborted, waitUntilFinished, waitUntilRunning } from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import { attempt } from '../../../support/attempt.ts';
import type { SlurmCluster } from '../../../support/slurm-cluster.ts';
import { endTimeLimit } from './cluster-harness.ts';
import { type OwnClusterHarness, ownClusterTest } from './own-cluster.ts';

const limits = { runtimeSeconds: 60, cancelRequestedAt: null };

describe('outcomes of jobs whose node or controller fails', { concurrency: true }, () => {
  ownClusterTest(
    'reports node_failed for a job whose node dies, and does not requeue it',
    {},
    async ({ engine, newJob, cluster }) => {
      const job = await newJob(runUntilReleased);
      await withAutomaticRelease(engine).submit(job, neverAborted);
      await waitUntilRunning(engine, job.jobId);
      await eventually('the job has started', async () => (await countRuns(job)) === 1);
      await cluster.stopNode('n1');
      // Slurm would notice it after SlurmdTimeout. A short one would also take a node that a busy machine delays for dead.
      cluster.run('scontrol', 'update', 'NodeName=n1', 'State=DOWN', 'Reason=test');
      const end = await waitUntilFinished(engine, job.jobId);
      assert.equal(end.outcome, 'node_failed');
      assert.match(end.reason, /NODE_FAIL/);
      assert.equal(await countRuns(job), 1);
      // The job must not run again when the node is back.
      await cluster.startNode('n1');
      const next = await newJob(runOnce);
      await withAutomaticRelease(engine).submit(next, neverAborted);
      assert.equal((await waitUntilFinished(engine, next.jobId)).outcome, 'succeeded');
      assert.equal(await countRuns(job), 1);
    },
  );

  ownClusterTest(
    'prevents the start of a cancelled job whose cancellation the controller forgets',
    {},
    async ({ engine, newJob, cluster, wholeSystem }) => {
      const running = await newJob({ ...runUntilReleased, ...wholeSystem });
      const pending = await newJob(runOnce);
      for (const job of [running, pending]) await withAutomaticRelease(engine).submit(job, neverAborted);
      await eventually('the job has started', async () => (await countRuns(running)) === 1);
      assert.equal(await engine.preventStart(running.workspace, neverAborted), false);
      await cluster.stopController();
      const [state, saved] = [join(cluster.folder, 'state'), join(cluster.folder, 'saved')];
      await cp(state, saved, { recursive: true });
      await cluster.startController();

      await engine.cancel(pending.jobId, neverAborted);
      assert.equal((await waitUntilFinished(engine, pending.jobId)).outcome, 'cancelled');
      assert.equal(await engine.preventStart(pending.workspace, neverAborted), true);
      await cluster.killController();
      await rm(state, { recursive: true });
      await rename(saved, state);
      await cluster.startController();
      await letFinish(running);

      const end = await waitUntilFinished(engine, pending.jobId);
      assert.deepEqual([end.outcome, await countRuns(pending)], ['node_failed', 0]);
      assert.match(await readFile(pending.workspace.stderr, 'utf8'), /the job was not started: it had ended before/);
      const records = await engine.readEndRecords(new Map([[pending.jobId, pending.workspace]]), neverAborted);
      assert.equal(records.get(pending.jobId), 'never_started');
      assert.equal(await engine.preventStart(pending.workspace, neverAborted), true);
    },
  );

  // By default a node waits so long before it kills a job at its limit that every job has recorded its end by then.
  const killsSoon = { nodes: 1, extraConf: ['KillWait=2'] };
  ownClusterTest(
    'reports a time limit for a job that does not end at it and is killed',
    killsSoon,
    async ({ engine, newJob, cluster }) => {
      const job = await newJob(shellLine("trap '' TERM; echo run >> runs; while :; do sleep 1; done"));
      const ref = await withAutomaticRelease(engine).submit(job, neverAborted);
      await eventually('the job has started', async () => (await countRuns(job)) === 1);
      await endTimeLimit(cluster, ref);
      const report = await waitUntilFinished(engine, job.jobId);
      assert.deepEqual([report.outcome, report.isExitMissing], ['timed_out', undefined]);
      const record = (await engine.readEndRecords(new Map([[job.jobId, job.workspace]]), neverAborted)).get(job.jobId);
      // Slurm kills the processes one after the other, so that the wrapper may record the death of the command before its own.
      assert.ok(typeof record === 'object' ? record.reason === 'killed by SIGKILL' : record === 'not_ended');
      assert.equal(reconcileEnd(report, record, limits).outcome, 'timed_out');
    },
  );

  ownClusterTest(
    'distinguishes a job that ends at its time limit from a job whose end no node reported',
    {},
    async ({ engine, newJob, cluster }) => {
      const refs: string[] = [];
      const submit = async (script: string, node: string) => {
        const site = { extraOptions: [`--nodelist=${node}`] };
        const job = await newJob({ ...shellLine(`${script}; echo run >> runs; while :; do sleep 1; done`), site });
        refs.push(await withAutomaticRelease(engine).submit(job, neverAborted));
        return job;
      };
      // Slurm signals the processes one after the other. The job signals its wrapper too, so that it does not end before that.
      const exiting = await submit("trap 'kill -TERM $PPID; exit 0' TERM", 'n1');
      const killed = await submit(':', 'n2');
      for (const job of [exiting, killed])
        await eventually('the job has started', async () => (await countRuns(job)) === 1);
      await cluster.killNodeJobs('n2');
      // The shortest limit is a minute. Slurm checks the limits every 30 s.
      for (const ref of refs) await endTimeLimit(cluster, ref);

      const read = async ({ jobId }: EngineJob) => {
        const { outcome, isExitMissing } = await waitUntilFinished(engine, jobId);
        return { outcome, isExitMissing };
      };
      assert.deepEqual(await read(exiting), { outcome: 'timed_out', isExitMissing: undefined });
      assert.deepEqual(await read(killed), { outcome: 'timed_out', isExitMissing: true });
      const paths = new Map([exiting, killed].map(({ jobId, workspace }) => [jobId, workspace]));
      const records = await engine.readEndRecords(paths, neverAborted);
      const exited = records.get(exiting.jobId);
      assert.equal(typeof exited === 'object' && exited.exitCode, 0);
      assert.equal(records.get(killed.jobId), 'not_ended');
    },
  );

  const constrained = {
    // Slurm names a cgroup by node and job. Another run of the tests on this machine has a node of the same name.
    extraConf: ['SelectTypeParameters=CR_Core_Memory', 'TaskPlugin=task/cgroup', `FirstJobId=${process.pid}`],
    cgroupConf: ['CgroupPlugin=autodetect', 'ConstrainRAMSpace=yes'],
    nodes: 1,
  };
  ownClusterTest('reports out_of_memory for a job that exceeds its memory', constrained, async ({ engine, newJob }) => {
    const greedy = shellLine('exec tail /dev/zero');
    const job = await newJob({ ...greedy, site: { extraOptions: ['--mem=50M'] } });
    await withAutomaticRelease(engine).submit(job, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.exitCode], ['out_of_memory', null]);
    assert.match(end.reason, /OUT_OF_MEMORY, OutOfMemory/);
  });

  ownClusterTest(
    'an end with exit code 1 is no failure of the job if its node refused to start it again, or its wrapper did',
    { nodes: 1 },
    async (harness) => {
      const { engine, cluster } = harness;
      const { job, report } = await refuseRestart(harness);
      if (!refusesRestarts(cluster)) {
        assert.deepEqual([report.outcome, report.startedAt, report.elapsedSeconds], ['node_failed', null, 0]);
        assert.match(report.reason, /^Slurm started the job a second time, which was prevented/);
        return;
      }
      assert.deepEqual([report.outcome, report.exitCode, report.allocation?.nodes], ['failed', 1, 1]);
      const { jobId, workspace } = job;
      const record = (await engine.readEndRecords(new Map([[jobId, workspace]]), neverAborted)).get(jobId);
      assert.equal(record, 'not_ended');
      assert.equal(isUncertain(report, record), true);
      const { outcome, reason, exitCode } = reconcileEnd(report, record, limits);
      assert.deepEqual([outcome, exitCode], ['node_failed', null]);
      assert.match(reason, /^the system lost the job and killed it, nothing is charged: submit it again/);
      // Such a job that never started counts as not submitted.
      assert.equal((await engine.find([job], neverAborted)).size, 1);
      await rm(`${job.workspace.directory}.started`, { recursive: true });
      assert.equal((await engine.find([job], neverAborted)).size, 0);
    },
  );
});

/** Since Slurm 25.11 a node distinguishes the starts of a job, and starts it again. The wrapper then prevents that it runs. */
const refusesRestarts = (cluster: SlurmCluster) =>
  Number(/\d+\.\d+/.exec(cluster.run('sinfo', '--version'))?.[0]) < 25.11;

/**
 * A node refuses a job that Slurm starts in the second in which it killed the job. Slurm delays the start after a requeue by two
 * minutes for that reason, but not the start after a controller has forgotten the job.
 */
async function refuseRestart({ engine, newJob, cluster }: OwnClusterHarness) {
  return await eventually('the node refuses to start the job again', async () => {
    const job = await newJob(runUntilReleased);
    const ref = await withAutomaticRelease(engine).submit(job, neverAborted);
    await eventually('the job has started', async () => (await countRuns(job)) === 1);
    await cluster.killNodeJobs('n1');
    await restart(cluster, ref);
    const report = await waitUntilFinished(engine, job.jobId);
    if (report.exitCode !== null || !refusesRestarts(cluster)) return { job, report };
    // The scheduler runs every second, but maybe too soon after the beginning of the second.
    await cluster.stopController();
    await cluster.startController();
    return null;
  });
}

async function restart(cluster: SlurmCluster, ref: string): Promise<void> {
  cluster.run('scontrol', 'update', `jobid=${ref}`, 'requeue=1');
  await sleep(1000 - (Date.now() % 1000));
  cluster.run('scontrol', 'requeue', ref);
  await eventually('the job does not wait', async () => {
    if (!/PENDING|REQUEUED|COMPLETING/.test(cluster.run('squeue', '-h', '-t', 'all', '-j', ref, '-o', '%T')))
      return true;
    // Repeated, because Slurm sets the delay when the requeue is complete. Fails if the job has just been refused.
    attempt(() => cluster.run('scontrol', 'update', `jobid=${ref}`, 'starttime=now') === '');
    return false;
  });
}
