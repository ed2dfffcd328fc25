import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { assertProblem, listFilesUnder } from '../support/problems.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

// The database is away while Bursar serves, and comes back.

let postgres: TestPostgres;
let server: ServerProcess;
let me: Caller;
let admin: Caller;
let running: Job;

before(async () => {
  postgres = await startPostgres({ durable: true });
  server = await spawnServer({ env: { BURSAR_DATABASE_URL: await postgres.database('bursar') } });
  me = createCaller(server.url, server.userToken);
  admin = createCaller(server.url, server.adminToken);
  running = (await me.submit('/jobs/hpc_one/', { command: waitForGoScript, runtime: 0.5 })).body;
  await waitForStage(me, running, 'RUNNING');
});
after(async () => {
  await server.dispose();
  await postgres.close();
});

async function assertUnavailable(send: () => Promise<Awaited<ReturnType<Caller['get']>>>): Promise<void> {
  const answer = await send();
  assertProblem(answer, { status: 503, code: 'database_unavailable', message: /Try again/ });
  assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
}

const isReady = async () => ((await me.get('/readyz')).status === 200 ? true : undefined);

for (const how of ['SIGINT', 'SIGQUIT'] as const) {
  test(`while it is away, every request is a clean 503 (${how})`, async () => {
    await postgres.stop(how);
    const paths = ['/jobs/', `/jobs/hpc_one/proj_hpc_one_01/${running.job_id}/`, '/quotas/', '/hpc/'];
    for (const path of paths) await assertUnavailable(() => me.get(path));
    await assertUnavailable(() => admin.get('/admin/ledger/proof/'));
    const zip = await createZip({ 'run.sh': 'true\n' });
    await assertUnavailable(() => me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip));
    assert.deepEqual(listFilesUnder(server, 'spool'), []);
    assertProblem(await me.get('/readyz'), { status: 503, code: 'unavailable', message: /database does not answer/ });
    assert.equal((await me.get('/livez')).status, 200);
  });

  test(`when it is back, so is everything, without a restart (${how})`, async () => {
    await postgres.start();
    await until('readiness', isReady);
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
    assert.equal(status, 201);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    assert.equal(server.process.exitCode, null, server.log());
  });
}

test('a job that ended while it was away is settled when it is back', async () => {
  await postgres.stop();
  releaseJob(server, running);
  await until('a round that failed', () => (/(poll|watcher) failed/.test(server.log()) ? true : undefined));
  await postgres.start();
  await until('readiness', isReady);
  assert.equal((await me.waitUntilFinished(running)).stage, 'SUCCESSFUL');
});

test('connections that are cut one by one are replaced', async () => {
  for (let round = 0; round < 5; round++) {
    await postgres.query(
      'postgres',
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'bursar' and pid <> pg_backend_pid()",
    );
    const answers = await Promise.all(Array.from({ length: 20 }, () => me.get('/jobs/')));
    for (const { status } of answers) assert.ok(status === 200 || status === 503, String(status));
    await until('readiness', isReady);
  }
});

test('the books balance after all that, and nothing was ever an error of ours', async () => {
  const { body } = await admin.get<{ balanced: boolean }>('/admin/ledger/proof/');
  assert.equal(body.balanced, true);
  assert.doesNotMatch(server.log(), /"code":"internal"|Unhandled|uncaught/i);
});
