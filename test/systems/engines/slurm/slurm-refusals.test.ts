import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { describe } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { isUncertain, reconcileEnd } from '../../../../src/domain/jobs/end-record.ts';
import type { Engine, EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import { eventually, neverAborted, waitUntilFinished } from '../../../engines/observing.ts';
import { countRuns, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import { attempt } from '../../../support/attempt.ts';
import type { SlurmCluster } from '../../../support/slurm-cluster.ts';
import { type SlurmHarness, slurmTest } from './slurm-harness.ts';

const limits = { runtimeSeconds: 60, isCancelRequested: false };

async function readRecord(engine: Engine, { jobId, workspace }: EngineJob) {
  return (await engine.readEndRecords(new Map([[jobId, workspace]]), neverAborted)).get(jobId);
}

describe('an end with exit code 1 on Slurm', { concurrency: 2 }, () => {
  slurmTest(
    'is no failure of the job if its node refused to start it again, or its wrapper did',
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
      const record = await readRecord(engine, job);
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

  slurmTest('always has an end record if it is that of the job', { nodes: 1 }, async ({ engine, newJob }) => {
    const run = async (line: string) => {
      const job = await newJob(shellLine(line));
      await withAutomaticRelease(engine).submit(job, neverAborted);
      const report = await waitUntilFinished(engine, job.jobId);
      const { outcome, reason, elapsedSeconds } = reconcileEnd(report, await readRecord(engine, job), limits);
      assert.ok(elapsedSeconds > 0, 'the time is charged');
      return `${outcome}: ${reason}`;
    };
    assert.deepEqual(
      await Promise.all([
        run('exit 1'),
        run('rm -r "$PWD.started"; exit 1'),
        run('mkdir "$PWD.started/end.new"; exit 1'),
        run('mkdir "$PWD.started/end"; exit 1'),
        run('rm -r "$PWD.started"; exit 3'),
        run('kill -KILL $PPID; sleep 60'),
      ]),
      [
        'failed: exit code 1',
        ...['failed: exit code 2', 'failed: exit code 2', 'failed: exit code 2'],
        'failed: exit code 3',
        'failed: killed by SIGKILL',
      ],
    );
  });
});

/** Since Slurm 25.11 a node distinguishes the starts of a job, and starts it again. The wrapper then prevents that it runs. */
const refusesRestarts = (cluster: SlurmCluster) =>
  Number(/\d+\.\d+/.exec(cluster.run('sinfo', '--version'))?.[0]) < 25.11;

/**
 * A node refuses a job that Slurm starts in the second in which it killed the job. Slurm delays the start after a requeue by two
 * minutes for that reason, but not the start after a controller has forgotten the job.
 */
async function refuseRestart({ engine, newJob, cluster }: SlurmHarness) {
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
