import assert from 'node:assert/strict';
import { chmod, mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe } from 'node:test';
import type { EngineJob } from '../../../src/engines/engine.ts';
import { withAutomaticRelease } from '../engine-harness.ts';
import { eventually, neverAborted, observeJob, waitUntilFinished, waitUntilRunning } from '../observing.ts';
import { countRuns, letFinish, runOnce, runUntilReleased, shellLine } from '../test-jobs.ts';
import { slurmTest } from './slurm-harness.ts';

describe('ends that Slurm gives to jobs', () => {
  slurmTest('cancelled while held, while pending and while running', {}, async ({ engine, newJob, wholeSystem }) => {
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

  slurmTest('a job whose node is gone', { extraConf: ['SlurmdTimeout=4'] }, async ({ engine, newJob, cluster }) => {
    const job = await newJob(runUntilReleased);
    await withAutomaticRelease(engine).submit(job, neverAborted);
    await waitUntilRunning(engine, job.jobId);
    await eventually('it has begun', async () => (await countRuns(job)) === 1);
    await cluster.stopNode('n1');
    const end = await waitUntilFinished(engine, job.jobId);
    assert.equal(end.outcome, 'node_failed');
    assert.match(end.reason, /NODE_FAIL/);
    assert.equal(await countRuns(job), 1);
    // Not requeued: what the node comes back to is nothing.
    await cluster.startNode('n1');
    const next = await newJob(runOnce);
    await withAutomaticRelease(engine).submit(next, neverAborted);
    assert.equal((await waitUntilFinished(engine, next.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(job), 1);
  });

  const constrained = {
    extraConf: ['SelectTypeParameters=CR_Core_Memory', 'TaskPlugin=task/cgroup'],
    cgroupConf: ['CgroupPlugin=autodetect', 'ConstrainRAMSpace=yes'],
    nodes: 1,
  };
  slurmTest('a job that needs too much memory', constrained, async ({ engine, newJob }) => {
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
  slurmTest('a job that had to make room', { extraConf: preempting }, async ({ engine, newJob, wholeSystem }) => {
    const first = await newJob({ ...runUntilReleased, ...wholeSystem });
    await withAutomaticRelease(engine).submit(first, neverAborted);
    await waitUntilRunning(engine, first.jobId);
    const second = await newJob({ ...runOnce, ...wholeSystem, site: { partition: 'high' } });
    await withAutomaticRelease(engine).submit(second, neverAborted);
    const end = await waitUntilFinished(engine, first.jobId);
    assert.equal(end.outcome, 'preempted');
    assert.match(end.reason, /PREEMPTED/);
    assert.equal((await waitUntilFinished(engine, second.jobId)).outcome, 'succeeded');
  });

  slurmTest('a job that Slurm cannot start', {}, async ({ engine, newJob }) => {
    const job = await newJob(runOnce);
    const stdout = '/proc/nowhere/stdout';
    await withAutomaticRelease(engine).submit({ ...job, workspace: { ...job.workspace, stdout } }, neverAborted);
    const end = await waitUntilFinished(engine, job.jobId);
    assert.deepEqual([end.outcome, end.startedAt, end.elapsedSeconds], ['node_failed', null, 0]);
    assert.match(end.reason, /JobLaunchFailure/);
    assert.equal(await countRuns(job), 0);
  });

  slurmTest('Slurm says no', {}, async ({ engine, newJob }) => {
    const refused = (message: RegExp) => ({ name: 'BursarError', code: 'job_refused', transient: false, message });
    const submit = async (site: EngineJob['site']) => engine.submit(await newJob({ site }), neverAborted);
    await assert.rejects(submit({ partition: 'nowhere' }), refused(/Invalid partition name.*nowhere/));
    await assert.rejects(submit({ constraint: 'nothing' }), refused(/Invalid feature/));
    await assert.rejects(submit({ extraOptions: ['--nonsense'] }), refused(/nonsense/));
  });
});

describe('what a job in Slurm finds', () => {
  slurmTest('its nodes and cores, its folder, its environment', {}, async ({ engine, newJob }) => {
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
    for (const [name, value] of Object.entries({ NODES: 2, CORES_PER_NODE: 3, RUNTIME_SECONDS: 60, JOB_ID: job.jobId }))
      assert.ok(env.includes(`BURSAR_${name}=${value}\0`), name);
    assert.ok(env.includes(`\0HOME=${directory}\0`) && env.includes(`TMPDIR=${directory}.tmp\0`));
  });

  slurmTest('lines for Slurm in its own script mean nothing', {}, async ({ engine, newJob }) => {
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

  slurmTest('no folder, or one that a run was in before: it does not run', {}, async ({ engine, newJob }) => {
    const [astray, again] = [await newJob(runOnce), await newJob(runUntilReleased)];
    const missing = { ...astray.workspace, directory: `${astray.workspace.directory}-gone` };
    await withAutomaticRelease(engine).submit({ ...astray, workspace: missing }, neverAborted);
    assert.equal((await waitUntilFinished(engine, astray.jobId)).outcome, 'failed');
    assert.match(await readFile(astray.workspace.stderr, 'utf8'), /not started in its own folder/);

    await withAutomaticRelease(engine).submit(again, neverAborted);
    await eventually('it runs', async () => (await countRuns(again)) === 1);
    const twin = await newJob(runUntilReleased);
    await withAutomaticRelease(engine).submit({ ...twin, workspace: again.workspace }, neverAborted);
    const { outcome, reason } = await waitUntilFinished(engine, twin.jobId);
    assert.equal(outcome, 'node_failed');
    assert.match(reason, /^Slurm forgot that it had begun and started it again, which was prevented/);
    await letFinish(again);
    assert.equal((await waitUntilFinished(engine, again.jobId)).outcome, 'succeeded');
    const late = await newJob(runUntilReleased);
    await withAutomaticRelease(engine).submit({ ...late, workspace: again.workspace }, neverAborted);
    assert.equal((await waitUntilFinished(engine, late.jobId)).outcome, 'succeeded');
    assert.equal(await countRuns(again), 1);
    assert.match(await readFile(again.workspace.stderr, 'utf8'), /runs only once/);
  });
});
