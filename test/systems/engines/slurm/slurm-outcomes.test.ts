import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe } from 'node:test';
import { reconcileEnd } from '../../../../src/domain/jobs/end-record.ts';
import type { Engine, EngineJob } from '../../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../../../engines/engine-harness.ts';
import {
  eventually,
  neverAborted,
  observeJob,
  waitUntilFinished,
  waitUntilRunning,
} from '../../../engines/observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../../../engines/test-jobs.ts';
import type { SharedCluster } from '../../../support/shared-cluster.ts';
import { slurmTest } from './slurm-harness.ts';

describe('outcomes of jobs on Slurm', { concurrency: 3 }, () => {
  slurmTest('cancels a job while it is held, pending and running', async ({ engine, newJob, wholeSystem }) => {
    const held = await newJob(runOnce);
    const running = await newJob({ ...runUntilReleased, ...wholeSystem });
    const pending = await newJob(runOnce);
    const ref = await engine.submit(held, neverAborted);
    assert.deepEqual(await observeJob(engine, held.jobId), {
      jobId: held.jobId,
      ref,
      engineMessage: 'PENDING, JobHeldUser',
      kind: 'queued',
      held: true,
    });
    await withAutomaticRelease(engine).submit(running, neverAborted);
    const { startedAt } = await waitUntilRunning(engine, running.jobId);
    await withAutomaticRelease(engine).submit(pending, neverAborted);
    const waiting = await observeJob(engine, pending.jobId);
    assert.ok(waiting?.kind === 'queued' && !waiting.held);
    for (const job of [held, pending, running]) await engine.cancel(job.jobId, neverAborted);

    for (const job of [held, pending]) {
      const end = await waitUntilFinished(engine, job.jobId);
      assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['cancelled', null, 0]);
      assert.equal(end.allocation, undefined);
      assert.equal(await countRuns(job), 0);
    }
    const end = await waitUntilFinished(engine, running.jobId);
    assert.deepEqual([end.outcome, end.startedAt, end.exitCode], ['cancelled', startedAt, null]);
    assert.match(end.reason, /CANCELLED/);
    assert.deepEqual(end.allocation, { nodes: 2, cores: 32 });
  });

  slurmTest('reports preempted for a preempted job', async ({ engine, newJob, wholeSystem, cluster }) => {
    const high = createPartition(cluster, 'high', 'PriorityTier=10');
    const first = await newJob({ ...runUntilReleased, ...wholeSystem });
    await withAutomaticRelease(engine).submit(first, neverAborted);
    await waitUntilRunning(engine, first.jobId);
    const second = await newJob({ ...runOnce, ...wholeSystem, site: { partition: high } });
    await withAutomaticRelease(engine).submit(second, neverAborted);
    const end = await waitUntilFinished(engine, first.jobId);
    assert.equal(end.outcome, 'preempted');
    assert.match(end.reason, /PREEMPTED/);
    assert.equal((await waitUntilFinished(engine, second.jobId)).outcome, 'succeeded');
  });

  slurmTest('reports node_failed for a job that Slurm cannot start', async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    const stdout = '/proc/nowhere/stdout';
    await withAutomaticRelease(engine).submit({ ...job, workspace: { ...job.workspace, stdout } }, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['node_failed', null, 0]);
    // The reason since Slurm 23.02 is the signal that the error number looks like.
    assert.match(end.reason, /JobLaunchFailure|RaisedSignal:53/);
    assert.equal(await countRuns(job), 0);
  });

  slurmTest(
    'throws job_refused only if Slurm can never run the job, not if it rejects options of the site',
    async ({ engine, newJob, cluster }) => {
      const short = createPartition(cluster, 'short', 'MaxTime=5');
      const submit = async (job: Partial<EngineJob>) => engine.submit(await newJob(job), neverAborted);
      const refused = (message: RegExp) => ({ name: 'BursarError', code: 'job_refused', transient: false, message });
      await assert.rejects(submit({ nodes: 3 }), refused(/Node count specification invalid/));
      await assert.rejects(submit({ coresPerNode: 40 }), refused(/More processors requested than permitted/));
      const tooLong = { runtimeSeconds: 600, site: { partition: short } };
      await assert.rejects(submit(tooLong), refused(/Requested time limit is invalid/));

      const misconfigured = (message: RegExp) => ({ ...refused(message), code: 'invalid_config' });
      const submitTo = (site: EngineJob['site']) => submit({ site });
      await assert.rejects(submitTo({ partition: 'nowhere' }), misconfigured(/Invalid partition name.*nowhere/));
      await assert.rejects(submitTo({ constraint: 'nothing' }), misconfigured(/Invalid feature/));
      await assert.rejects(submitTo({ extraOptions: ['--gres=gpu:1'] }), misconfigured(/Invalid generic resource/));
      await assert.rejects(submitTo({ extraOptions: ['--nonsense'] }), misconfigured(/nonsense/));
    },
  );

  slurmTest('an end with exit code 1 always has an end record if it is that of the job', async ({ engine, newJob }) => {
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

const limits = { runtimeSeconds: 60, cancelRequestedAt: null };

async function readRecord(engine: Engine, { jobId, workspace }: EngineJob) {
  return (await engine.readEndRecords(new Map([[jobId, workspace]]), neverAborted)).get(jobId);
}

/** Creates a further partition with the nodes of the test. */
function createPartition({ partition, nodes, run }: SharedCluster, name: string, option: string): string {
  run('scontrol', 'create', `PartitionName=${partition}-${name}`, `Nodes=${nodes}`, option, 'State=UP');
  return `${partition}-${name}`;
}

describe('the environment of a job on Slurm', { concurrency: true }, () => {
  slurmTest('has the requested nodes and cores, the job folder and a clean environment', async ({ engine, newJob }) => {
    const show = 'env -0 | sort -z > env; srun -l hostname | wc -l; pwd; echo "$SLURM_JOB_CPUS_PER_NODE"; umask';
    const job = await newJob({ ...shellLine(show), nodes: 2, coresPerNode: 3 });
    process.env.SBATCH_PARTITION = 'nowhere';
    process.env.BURSAR_SECRET = 'secret';
    await withAutomaticRelease(engine).submit(job, neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    const { directory, stdout } = job.workspace;
    assert.equal(await readFile(stdout, 'utf8'), `6\n${directory}\n3(x2)\n0077\n`);
    const env = await readFile(join(directory, 'env'), 'utf8');
    assert.doesNotMatch(env, /SBATCH_|SECRET|SLURM_TIME_FORMAT|\0TZ=/);
    for (const [name, value] of Object.entries({
      NODES: 2,
      CORES_PER_NODE: 3,
      RUNTIME_SECONDS: job.runtimeSeconds,
      JOB_ID: job.jobId,
    }))
      assert.ok(env.includes(`BURSAR_${name}=${value}\0`), name);
    assert.ok(env.includes(`\0HOME=${directory}\0`) && env.includes(`TMPDIR=${directory}.tmp\0`));
  });

  slurmTest('ignores #SBATCH lines of the script', async ({ engine, newJob }) => {
    const job = await newJob({ command: { kind: 'script', script: 'deep/run.sh', args: ['%j'] } });
    const file = join(job.workspace.directory, 'deep/run.sh');
    await mkdir(dirname(file));
    const text = '#!/bin/sh\n#SBATCH --job-name=other\n#SBATCH --output=/tmp/elsewhere\necho "$SLURM_JOB_NAME $1"\n';
    await writeFile(file, text);
    await chmod(file, 0o600);
    await withAutomaticRelease(engine).submit(job, neverAborted);
    assert.equal((await waitUntilFinished(engine, job.jobId)).outcome, 'succeeded');
    assert.equal(await readFile(job.workspace.stdout, 'utf8'), `${job.jobId} %j\n`);
  });

  slurmTest('does not run without its folder, or a second time in the same folder', async ({ engine, newJob }) => {
    const [withoutFolder, first] = [await newJob(runOnce), await newJob(runUntilReleased)];
    const missing = { ...withoutFolder.workspace, directory: `${withoutFolder.workspace.directory}-gone` };
    await withAutomaticRelease(engine).submit({ ...withoutFolder, workspace: missing }, neverAborted);
    await assertNotStarted(engine, withoutFolder, /its own folder cannot be entered\nbursar: check that/);

    await withAutomaticRelease(engine).submit(first, neverAborted);
    await eventually('the job runs', async () => (await countRuns(first)) === 1);
    const second = await newJob(runUntilReleased);
    await withAutomaticRelease(engine).submit({ ...second, workspace: first.workspace }, neverAborted);
    const { outcome, reason } = await waitUntilFinished(engine, second.jobId);
    assert.equal(outcome, 'node_failed');
    assert.match(reason, /^Slurm started the job a second time, which was prevented/);
    await letFinish(first);
    assert.equal((await waitUntilFinished(engine, first.jobId)).outcome, 'succeeded');
    const third = await newJob(runUntilReleased);
    await withAutomaticRelease(engine).submit({ ...third, workspace: first.workspace }, neverAborted);
    assert.equal((await waitUntilFinished(engine, third.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(first), 1);
    assert.match(await readFile(first.workspace.stderr, 'utf8'), /runs only once/);
  });

  slurmTest('a job that its wrapper cannot start has not failed, and is not charged', async ({ engine, newJob }) => {
    for (const [suffix, message] of [
      ['.started', /its start record cannot be created/],
      ['.tmp', /its folder for temporary files cannot be created/],
    ] as const) {
      const job = await newJob(runOnce);
      // In the place of a folder.
      await writeFile(job.workspace.directory + suffix, '');
      await withAutomaticRelease(engine).submit(job, neverAborted);
      await assertNotStarted(engine, job, message);
      assert.equal(await countRuns(job), 0);
    }
  });
});

async function assertNotStarted(engine: Engine, { jobId, workspace }: EngineJob, message: RegExp): Promise<void> {
  const { outcome, reason, startedAt, elapsedSeconds } = await waitUntilFinished(engine, jobId);
  assert.deepEqual(
    { outcome, startedAt, elapsedSeconds },
    { outcome: 'node_failed', startedAt: null, elapsedSeconds: 0 },
  );
  assert.match(reason, /could not be started on its node, nothing of it ran, and nothing is charged/);
  assert.match(await readFile(workspace.stderr, 'utf8'), message);
}
