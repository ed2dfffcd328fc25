import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { temporaryFolder } from '../../files/temporary.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { queryDatabase } from '../../support/database.ts';
import { cancelJob, jobPath } from '../../support/jobs.ts';
import { readLogLines } from '../../support/logs.ts';
import { spawnServer } from '../../support/server-process.ts';
import { startCluster } from '../../support/slurm-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { until } from '../../support/until.ts';

/** Starts a cluster without accounting that removes finished jobs from the queue early, and a server that can restart. */
async function startService(t: TestContext, extraConf: string[] = []) {
  const cluster = await startCluster({ nodes: 1, minJobAge: 2, extraConf: ['FirstJobId=100', ...extraConf] });
  const config = slurmConfig(cluster, { accounting: 'none' });
  const tuning = { missingAlarmMs: 15_000 };
  let server = await spawnServer({ config, tuning });
  t.after(async () => {
    await server.dispose();
    await cluster.stop();
  });
  const token = server.userToken;
  const { data } = server;
  let me = createCaller(server.url, token);
  const findLogLine = async (text: RegExp, job: Job) =>
    (await readLogLines(server)).find(({ msg, jobId }) => text.test(msg) && jobId === job.job_id);
  return {
    cluster,
    data,
    me: () => me,
    findLogLine,
    stopServer: () => server.stop(),
    async respawnServer() {
      server = await spawnServer({ config, tuning, data });
      me = createCaller(server.url, token);
    },
    /** Submits a job that occupies the whole node, so that it waits while another one runs. */
    async submit(command: string) {
      const { status, body } = await me.submit('/jobs/hpc_one/', { command, core_number: '16', runtime: '0.5' });
      assert.equal(status, 201);
      return body;
    },
    waitForRef: (job: Job, states = 'PD,R') =>
      until(
        `${job.job_id} is in the queue`,
        () => cluster.run('squeue', '-h', '-o', '%i', '-t', states, '-n', job.job_id).trim() || undefined,
      ),
    waitUntilStored: (job: Job) => until('the Slurm id is stored', () => findLogLine(/job submitted/, job)),
  };
}

// Each test waits for about 10 s until slurmctld removes finished jobs. With their own clusters they wait together.
describe('jobs that Slurm without accounting no longer reports', { concurrency: true }, () => {
  test('raises an alarm for a job that was cancelled while Bursar was down, and ends it when its owner cancels it', async (t) => {
    const { cluster, data, me, findLogLine, submit, waitForRef, ...service } = await startService(t);
    const before = (await me().quota('hpc_one', 'proj_hpc_one_01')).time_left;
    const blocker = await submit('sleep 600');
    // A submission that is slow to end could otherwise be released after the job.
    const blockerRef = await waitForRef(blocker, 'R');
    const job = await submit('true');
    const ref = await waitForRef(job);
    // Without a stored Slurm id the server would rightly submit the job again.
    await service.waitUntilStored(job);
    await service.stopServer();
    cluster.run('scancel', ref);
    const refs = () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i').split('\n');
    await until('the job has left the queue', () => !refs().includes(ref) || undefined);
    await service.respawnServer();
    await until('the alarm', () => findLogLine(/not reported by its system for a long time/, job));
    assert.equal((await me().get<Job>(jobPath(job))).body.stage, 'QUEUED');
    assert.equal(await findLogLine(/job submitted|missing job never started/, job), undefined);

    const { stage, failed } = await cancelJob(me(), job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    await until('the workspace is removed', () => !existsSync(join(data, 'workspaces', job.job_id)) || undefined);
    cluster.run('scancel', blockerRef);
    await me().waitUntilFinished(blocker);
    const used = before - (await me().quota('hpc_one', 'proj_hpc_one_01')).time_left;
    assert.ok(used > 0 && used < 1800 * 16, `${used} seconds are more than the one job that ran can have used`);
    assert.equal(cluster.run('squeue', '-h', '-t', 'all', '-n', job.job_id), '');
  });

  test('reads the end record of a job that ended and left the queue while Bursar was down', async (t) => {
    const { cluster, data, me, submit, waitForRef, ...service } = await startService(t);
    const hasBegun = ({ job_id }: Job) => existsSync(join(data, 'workspaces', job_id, 'files', 'begun')) || undefined;
    const wanted = await submit('touch begun; sleep 2; exit 3');
    // A job that is held when Bursar stops would wait for its restart.
    await until('the first job has begun', () => hasBegun(wanted));
    const unwanted = await submit('touch begun; sleep 600');
    const ref = await waitForRef(unwanted);
    await until('the second job has begun', () => hasBegun(unwanted));
    // Bursar has seen it running, too.
    const isRunning = async () => (await me().get<Job>(jobPath(unwanted))).body.stage === 'RUNNING';
    await until('the second job runs', async () => (await isRunning()) || undefined);
    await service.stopServer();
    // As if its owner had requested the cancellation just before the stop.
    const requestCancel = 'update jobs set cancel_requested_at = 1, cancel_requested_by = owner where job_id = ?';
    await queryDatabase(data, requestCancel, [unwanted.job_id]);
    cluster.run('scancel', ref);
    await until('the queue is empty', () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i') === '' || undefined);
    await service.respawnServer();
    const [failed, cancelled] = [await me().waitUntilFinished(wanted), await me().waitUntilFinished(unwanted)];
    const rows = await queryDatabase<{ reason: string }>(
      data,
      'select reason from jobs where job_id in (?, ?) order by id',
      [wanted.job_id, unwanted.job_id],
    );
    assert.deepEqual(
      [failed.failed, cancelled.stage, cancelled.failed, ...rows.map(({ reason }) => reason)],
      [true, 'CANCELED', false, 'exit code 3', 'cancelled by its owner (killed by SIGTERM)'],
    );
  });

  test('submits a job again that a killed controller lost, and runs it once', async (t) => {
    const { cluster, data, me, findLogLine, submit, waitForRef, ...service } = await startService(t);
    const blocker = await submit('touch begun; sleep 600');
    const begun = join(data, 'workspaces', blocker.job_id, 'files', 'begun');
    // Otherwise it never started, and it would rightly be submitted again too, before the job.
    await until('the first job has begun', () => existsSync(begun) || undefined);
    const job = await submit('echo ran >> runs');
    await waitForRef(job);
    await service.waitUntilStored(job);
    // The new controller assigns ids from 1, as after a loss of its state. They must not be ids of jobs that just ran:
    // slurmd still knows those, and would refuse to start a new job with the same id.
    const conf = cluster.env.SLURM_CONF;
    writeFileSync(conf, readFileSync(conf, 'utf8').replace('FirstJobId=100', 'FirstJobId=1'));
    await cluster.wipeController();
    assert.equal((await me().waitUntilFinished(job)).stage, 'SUCCESSFUL');
    assert.ok(await findLogLine(/missing job never started, requeued/, job));
    assert.equal(readFileSync(join(data, 'workspaces', job.job_id, 'files', 'runs'), 'utf8'), 'ran\n');
  });

  // Slurm shows a job as running before its wrapper runs on the node. Only the start record tells the two cases apart.
  for (const [hasStarted, outcome] of [
    [true, 'lost'],
    [false, 'node_failed'],
  ] as const)
    test(`ends a job as ${outcome} that was killed with its node ${hasStarted ? 'while it ran' : 'before it started'} and that the controller has forgotten`, async (t) => {
      const folder = await temporaryFolder(t);
      const prolog = join(folder, 'prolog');
      // Runs on the node before the job, which waits for it.
      writeFileSync(prolog, `#!/bin/sh\ntouch ${folder}/waits\nexec sleep 600\n`, { mode: 0o755 });
      const service = await startService(t, hasStarted ? [] : [`Prolog=${prolog}`]);
      const { cluster, data, me, findLogLine, submit } = service;
      const before = (await me().quota('hpc_one', 'proj_hpc_one_01')).time_left;
      const job = await submit('echo ran >> runs; sleep 600');
      const runs = join(data, 'workspaces', job.job_id, 'files', 'runs');
      const reached = hasStarted ? runs : join(folder, 'waits');
      await until('the job has reached its node', () => existsSync(reached) || undefined);
      await until('Bursar shows it as running', () => findLogLine(/job state changed/, job));
      // First the controller: if it noticed the end of the node, it would report the job as killed by it.
      await cluster.killController();
      await cluster.stopNode('n1');
      await cluster.wipeController();
      const { stage, failed } = await me().waitUntilFinished(job);
      assert.deepEqual([stage, failed], ['FAILED', true]);
      const ends = await queryDatabase<{ outcome: string }>(data, 'select outcome from jobs', []);
      assert.deepEqual(ends, [{ outcome }]);
      assert.equal((await me().quota('hpc_one', 'proj_hpc_one_01')).time_left, before);
      assert.equal(existsSync(runs) ? readFileSync(runs, 'utf8') : '', hasStarted ? 'ran\n' : '');
    });
});
