import assert from 'node:assert/strict';
import { chmod, cp, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe } from 'node:test';
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
import { slurmTest } from './slurm-harness.ts';

describe('outcomes of jobs on Slurm', { concurrency: 3 }, () => {
  slurmTest('cancels a job while it is held, pending and running', {}, async ({ engine, newJob, wholeSystem }) => {
    const held = await newJob(runOnce);
    const running = await newJob({ ...runUntilReleased, ...wholeSystem });
    const pending = await newJob(runOnce);
    await engine.submit(held, neverAborted);
    assert.deepEqual(await observeJob(engine, held.jobId), {
      jobId: held.jobId,
      ref: '1',
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

  slurmTest(
    'reports node_failed for a job whose node dies, and does not requeue it',
    { extraConf: ['SlurmdTimeout=4'] },
    async ({ engine, newJob, cluster }) => {
      const job = await newJob(runUntilReleased);
      await withAutomaticRelease(engine).submit(job, neverAborted);
      await waitUntilRunning(engine, job.jobId);
      await eventually('the job has started', async () => (await countRuns(job)) === 1);
      await cluster.stopNode('n1');
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

  slurmTest(
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

  slurmTest(
    'distinguishes jobs that reach their time limit from a job whose end no node reported',
    { extraConf: ['KillWait=2'] },
    async ({ engine, newJob, cluster }) => {
      const submit = async (script: string, node: string) => {
        const site = { extraOptions: [`--nodelist=${node}`] };
        const job = await newJob({ ...shellLine(`${script}; echo run >> runs; while :; do sleep 1; done`), site });
        await withAutomaticRelease(engine).submit(job, neverAborted);
        return job;
      };
      const exiting = await submit("trap 'exit 0' TERM", 'n1');
      const ignoring = await submit("trap '' TERM", 'n1');
      const killed = await submit(':', 'n2');
      for (const job of [exiting, ignoring, killed])
        await eventually('the job has started', async () => (await countRuns(job)) === 1);
      await cluster.killNodeJobs('n2');

      const read = async ({ jobId }: EngineJob) => {
        const { outcome, isExitMissing } = await waitUntilFinished(engine, jobId);
        return { outcome, isExitMissing };
      };
      assert.deepEqual(await read(exiting), { outcome: 'timed_out', isExitMissing: undefined });
      assert.deepEqual(await read(ignoring), { outcome: 'timed_out', isExitMissing: undefined });
      assert.deepEqual(await read(killed), { outcome: 'timed_out', isExitMissing: true });
      const paths = new Map([exiting, ignoring, killed].map(({ jobId, workspace }) => [jobId, workspace]));
      const records = await engine.readEndRecords(paths, neverAborted);
      const exited = records.get(exiting.jobId);
      assert.equal(typeof exited === 'object' && exited.exitCode, 0);
      for (const { jobId } of [ignoring, killed]) assert.equal(records.get(jobId), 'not_ended');
    },
  );

  const constrained = {
    extraConf: ['SelectTypeParameters=CR_Core_Memory', 'TaskPlugin=task/cgroup'],
    cgroupConf: ['CgroupPlugin=autodetect', 'ConstrainRAMSpace=yes'],
    nodes: 1,
  };
  slurmTest('reports out_of_memory for a job that exceeds its memory', constrained, async ({ engine, newJob }) => {
    const greedy = shellLine('exec tail /dev/zero');
    const job = await newJob({ ...greedy, site: { extraOptions: ['--mem=50M'] } });
    await withAutomaticRelease(engine).submit(job, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.exitCode], ['out_of_memory', null]);
    assert.match(end.reason, /OUT_OF_MEMORY, OutOfMemory/);
  });

  const preempting = [
    'PreemptType=preempt/partition_prio',
    'PreemptMode=CANCEL',
    'PartitionName=high Nodes=ALL PriorityTier=10 MaxTime=INFINITE State=UP',
  ];
  slurmTest(
    'reports preempted for a preempted job',
    { extraConf: preempting },
    async ({ engine, newJob, wholeSystem }) => {
      const first = await newJob({ ...runUntilReleased, ...wholeSystem });
      await withAutomaticRelease(engine).submit(first, neverAborted);
      await waitUntilRunning(engine, first.jobId);
      const second = await newJob({ ...runOnce, ...wholeSystem, site: { partition: 'high' } });
      await withAutomaticRelease(engine).submit(second, neverAborted);
      const end = await waitUntilFinished(engine, first.jobId);
      assert.equal(end.outcome, 'preempted');
      assert.match(end.reason, /PREEMPTED/);
      assert.equal((await waitUntilFinished(engine, second.jobId)).outcome, 'succeeded');
    },
  );

  slurmTest('reports node_failed for a job that Slurm cannot start', {}, async ({ engine, newJob }) => {
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
    { extraConf: ['EnforcePartLimits=ALL', 'PartitionName=short Nodes=ALL MaxTime=5 State=UP'] },
    async ({ engine, newJob }) => {
      const submit = async (job: Partial<EngineJob>) => engine.submit(await newJob(job), neverAborted);
      const refused = (message: RegExp) => ({ name: 'BursarError', code: 'job_refused', transient: false, message });
      await assert.rejects(submit({ nodes: 3 }), refused(/Node count specification invalid/));
      await assert.rejects(submit({ coresPerNode: 40 }), refused(/More processors requested than permitted/));
      const tooLong = { runtimeSeconds: 600, site: { partition: 'short' } };
      await assert.rejects(submit(tooLong), refused(/Requested time limit is invalid/));

      const misconfigured = (message: RegExp) => ({ ...refused(message), code: 'invalid_config' });
      const submitTo = (site: EngineJob['site']) => submit({ site });
      await assert.rejects(submitTo({ partition: 'nowhere' }), misconfigured(/Invalid partition name.*nowhere/));
      await assert.rejects(submitTo({ constraint: 'nothing' }), misconfigured(/Invalid feature/));
      await assert.rejects(submitTo({ extraOptions: ['--gres=gpu:1'] }), misconfigured(/Invalid generic resource/));
      await assert.rejects(submitTo({ extraOptions: ['--nonsense'] }), misconfigured(/nonsense/));
    },
  );
});

describe('the environment of a job on Slurm', { concurrency: true }, () => {
  slurmTest(
    'has the requested nodes and cores, the job folder and a clean environment',
    {},
    async ({ engine, newJob }) => {
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
        RUNTIME_SECONDS: 60,
        JOB_ID: job.jobId,
      }))
        assert.ok(env.includes(`BURSAR_${name}=${value}\0`), name);
      assert.ok(env.includes(`\0HOME=${directory}\0`) && env.includes(`TMPDIR=${directory}.tmp\0`));
    },
  );

  slurmTest('ignores #SBATCH lines of the script', {}, async ({ engine, newJob }) => {
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

  slurmTest('does not run without its folder, or a second time in the same folder', {}, async ({ engine, newJob }) => {
    const [withoutFolder, first] = [await newJob(runOnce), await newJob(runUntilReleased)];
    const missing = { ...withoutFolder.workspace, directory: `${withoutFolder.workspace.directory}-gone` };
    await withAutomaticRelease(engine).submit({ ...withoutFolder, workspace: missing }, neverAborted);
    await assertNotStarted(engine, withoutFolder, /Slurm did not start it in its own folder\nbursar: check that/);

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

  slurmTest(
    'a job that its wrapper cannot start has not failed, and is not charged',
    {},
    async ({ engine, newJob }) => {
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
    },
  );
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
