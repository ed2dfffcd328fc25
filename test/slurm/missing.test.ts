import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, callerOf, type Job } from '../support/api.ts';
import { queryDatabase } from '../support/database.ts';
import { pathOf } from '../support/jobs.ts';
import { logLines } from '../support/logs.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import { until } from '../support/until.ts';
import { slurmConfig } from './config.ts';

/** Slurm forgets at once what is over, and nobody else remembers. */
describe('jobs that a Slurm without accounting does not mention any more', () => {
  let cluster: SlurmCluster;
  let server: ServerProcess;
  let me: Caller;
  const start = async (data?: string) => {
    const config = slurmConfig(cluster, { accounting: 'none', missingAlarmSeconds: 15 });
    server = await spawnServer({ config, ...(data === undefined ? {} : { data }) });
    me = callerOf(server.url, token || server.userToken);
  };
  let token = '';
  before(async () => {
    cluster = await startCluster({ nodes: 1, minJobAge: 2 });
    await start();
    token = server.userToken;
  });
  after(async () => {
    await server.dispose();
    await cluster.stop();
  });

  const refOf = (job: Job) =>
    until(
      `${job.job_id} is in the queue`,
      () => cluster.run('squeue', '-h', '-o', '%i', '-n', job.job_id).trim() || undefined,
    );
  const said = async (text: RegExp, job: Job) =>
    (await logLines(server)).find(({ msg, jobId }) => text.test(msg) && jobId === job.job_id);
  /** A job that cannot start, as another one has the whole node. */
  const submit = async (command: string) => {
    const { status, body } = await me.submit('/jobs/hpc_one/', { command, core_number: '16', runtime: '0.5' });
    assert.equal(status, 201);
    return body;
  };

  test('cancelled by an administrator while Bursar was away: an alarm, no second submission, and DELETE ends it', async () => {
    const before = (await me.quota('hpc_one', 'proj_hpc_one_01')).time_left;
    const blocker = await submit('sleep 600');
    const [blocking, job] = [await refOf(blocker), await submit('true')];
    const ref = await refOf(job);
    // Before that it would be submitted again, and rightly.
    await until('it is stored', () => said(/job submitted/, job));
    await server.stop();
    cluster.run('scancel', ref);
    const refs = () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i').split('\n');
    await until('it has left the queue', () => !refs().includes(ref) || undefined);
    await start(server.data);
    await until('the alarm', () => said(/not reported by its system for a long time/, job));
    assert.equal((await me.get<Job>(pathOf(job))).body.stage, 'QUEUED');
    assert.equal(await said(/job submitted|lost by its system/, job), undefined);

    await me.send('DELETE', pathOf(job));
    const { stage, failed } = await me.finished(job);
    assert.deepEqual([stage, failed], ['CANCELED', false]);
    await until('nothing of it is left', () => !existsSync(join(server.data, 'workspaces', job.job_id)) || undefined);
    cluster.run('scancel', blocking);
    await me.finished(blocker);
    const used = before - (await me.quota('hpc_one', 'proj_hpc_one_01')).time_left;
    assert.ok(used > 0 && used < 1800 * 16, `${used} seconds are more than those of the one job that ran`);
    assert.equal(cluster.run('squeue', '-h', '-t', 'all', '-n', job.job_id), '');
  });

  test('ended while Bursar was away, and out of the queue: its end is what it left itself', async () => {
    const [wanted, unwanted] = [await submit('sleep 2; exit 3'), await submit('sleep 600')];
    const ref = await refOf(unwanted);
    await until('it runs', async () => (await me.get<Job>(pathOf(unwanted))).body.stage === 'RUNNING' || undefined);
    await server.stop();
    // As if its owner had asked for it in the last moment.
    await queryDatabase(server.data, 'update jobs set cancel_requested_at = 1 where job_id = ?', [unwanted.job_id]);
    cluster.run('scancel', ref);
    await until('the queue is empty', () => cluster.run('squeue', '-h', '-t', 'all', '-o', '%i') === '' || undefined);
    await start(server.data);
    const [failed, cancelled] = [await me.finished(wanted), await me.finished(unwanted)];
    assert.deepEqual([failed.failed, cancelled.stage, cancelled.failed], [true, 'CANCELED', false]);
    const rows = await queryDatabase<{ reason: string }>(
      server.data,
      'select reason from jobs where job_id in (?, ?) order by id',
      [wanted.job_id, unwanted.job_id],
    );
    assert.deepEqual(
      rows.map(({ reason }) => reason),
      ['exit code 3', 'cancelled by its owner (killed by SIGTERM)'],
    );
  });

  test('forgotten by a controller that was killed: it is submitted again, and runs once', async () => {
    const blocker = await submit('sleep 5');
    await refOf(blocker);
    const job = await submit('echo ran >> runs');
    await refOf(job);
    await until('it is stored', () => said(/job submitted/, job));
    await cluster.wipeController();
    assert.equal((await me.finished(job)).stage, 'SUCCESSFUL');
    assert.ok(await said(/lost by its system before it started/, job));
    assert.equal(readFileSync(join(server.data, 'workspaces', job.job_id, 'files', 'runs'), 'utf8'), 'ran\n');
  });
});
