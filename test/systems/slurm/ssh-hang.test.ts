import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { jobPath, requestCancel } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { type SharedCluster, sharedCluster } from '../../support/shared-cluster.ts';
import { slurmConfig } from '../../support/slurm-config.ts';
import { startSshd, type TestSshd } from '../../support/sshd.ts';
import { until } from '../../support/until.ts';

/** Two instances, one PostgreSQL, and a cluster over ssh on which every command for the files of jobs can be made to hang. */
describe('commands that hang on an ssh host', { concurrency: 1 }, () => {
  const data = mkdtempSync(join(tmpdir(), 'bursar-hang-'));
  const servers: ServerProcess[] = [];
  let postgres: TestPostgres;
  let cluster: SharedCluster;
  let sshd: TestSshd;
  let workspaceFolder: string;
  let token: string;
  let me: Caller;

  async function startServer(): Promise<ServerProcess> {
    const { controlFolder: _, environment: __, ...ssh } = sshd.options;
    const engine = { ssh, workspaceFolder, commandTimeoutSeconds: 5 };
    const config = slurmConfig(cluster, engine);
    const server = await spawnServer({ data, config, env: { BURSAR_DATABASE_URL: postgres.url('bursar') } });
    servers.push(server);
    return server;
  }
  /** Fails if there is no result while the commands hang. */
  async function whileHanging<T>(condition: string, result: Promise<T>): Promise<T> {
    let settled: { value: T } | undefined;
    void result.then(
      (value) => {
        settled = { value };
      },
      () => undefined,
    );
    return (await until(condition, () => settled)).value;
  }
  const submit = async (command: string) => (await me.submit('/jobs/hpc_one/', { command })).body;
  const countPolls = async () =>
    Number(/bursar_watch_rounds_total\S* (\d+)/.exec((await me.get('/metrics')).text)?.[1] ?? 0);
  const endHang = async () => {
    await sshd.hang(null);
    // Ends the commands that hang.
    await sshd.restart();
  };

  before(async () => {
    [postgres, cluster, sshd] = [await startPostgres(), await sharedCluster(), await startSshd({ canHang: true })];
    await postgres.database('bursar');
    workspaceFolder = join(cluster.folder, 'work');
    const server = await startServer();
    token = server.userToken;
    me = createCaller(server.url, token);
  });
  after(async () => {
    await Promise.all(servers.map((server) => server.kill()));
    await sshd.close();
    await cluster.stop();
    await postgres.close();
    rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
    rmSync(`${data}.yaml`, { force: true });
  });

  test('reads of files are answered with 503, and a deletion with 200', async () => {
    const job = await me.waitUntilFinished(await submit('echo output > file; sleep 1'));
    assert.equal(job.stage, 'SUCCESSFUL');
    const free = (await me.quota('hpc_one', 'proj_hpc_one_01')).space_left;
    await sshd.hang(job.job_id);
    const files = jobPath(job).replace('/jobs/', '/files/');
    const paths = [files, `${files}file`, `${files}?archive=zip`, `${jobPath(job)}log/`];
    const responses = await whileHanging(
      'every read is answered',
      Promise.all(paths.map(async (path) => await me.get(path))),
    );
    for (const response of responses) {
      assertProblem(response, { status: 503, code: 'unavailable', message: /did not answer within 5 s/ });
    }
    const deletion = await whileHanging('the deletion is answered', me.send('DELETE', jobPath(job)));
    assert.deepEqual([deletion.status, (deletion.body as Job).stage], [200, 'DELETED']);
    assert.ok((await me.quota('hpc_one', 'proj_hpc_one_01')).space_left > free);
    await endHang();
  });

  test('uploads of files delay no other command, and are interrupted when their jobs are cancelled', async () => {
    await sshd.hang(workspaceFolder);
    const jobs = await Promise.all(Array.from({ length: 8 }, () => submit('true')));
    await sshd.waitForHang();
    const polls = await countPolls();
    await until('the scheduler is polled', async () => (await countPolls()) > polls + 2 || undefined);
    // On a busy machine one of the commands can take too long, until the next poll.
    await until(
      'the system is up',
      async () => (await me.get<{ status: string }>('/hpc/hpc_one/')).body.status === 'up' || undefined,
    );
    for (const job of jobs) assert.equal((await requestCancel(me, job)).status, 202);
    const ended = await whileHanging('the jobs end', Promise.all(jobs.map(me.waitUntilFinished)));
    assert.deepEqual(new Set(ended.map(({ stage }) => stage)), new Set(['CANCELED']));
    await endHang();
  });

  test('an instance that is stopped exits, and another one takes its work over', async () => {
    const [first] = servers;
    assert.ok(first);
    await sshd.hang(workspaceFolder);
    const job = await submit('echo once');
    await sshd.waitForHang();
    const second = await startServer();
    const takenOver = until('the other instance acquires the lease', () =>
      /system hpc_one.*lease acquired/.test(second.log()) ? true : undefined,
    );
    assert.equal(await whileHanging('the first instance exits', first.stop()), 0);
    await takenOver;
    await endHang();
    me = createCaller(second.url, token);
    assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
    assert.equal(
      await (await fetch(`${second.url}${jobPath(job)}log/`, { headers: { authorization: `Bearer ${token}` } })).text(),
      'once\n',
    );
  });
});
