import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { releaseJob, waitForGoScript, waitForStage } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { shippedConfig } from '../../support/shipped-config.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// PostgreSQL stops while the server runs, and starts again.

let postgres: TestPostgres;
let server: ServerProcess;
let me: Caller;
let admin: Caller;
let running: Job;

before(async () => {
  postgres = await startPostgres({ durable: true });
  const { systems, ...config } = shippedConfig();
  // One job runs all the time, and others must run beside it, also on a machine with one core.
  const hpc_one = { ...systems.hpc_one, engine: { kind: 'local', cores: 2 } };
  server = await spawnServer({
    config: { ...config, systems: { ...systems, hpc_one } },
    env: { BURSAR_DATABASE_URL: await postgres.database('bursar') },
  });
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
  const response = await send();
  assertProblem(response, { status: 503, code: 'database_unavailable', message: /Try again/ });
  assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
}

const isReady = async () => ((await me.get('/readyz')).status === 200 ? true : undefined);

for (const signal of ['SIGINT', 'SIGQUIT'] as const) {
  test(`returns 503 with Retry-After to every request while PostgreSQL is stopped (${signal})`, async () => {
    await postgres.stop(signal);
    const paths = ['/jobs/', `/jobs/hpc_one/proj_hpc_one_01/${running.job_id}/`, '/quotas/', '/hpc/'];
    for (const path of paths) await assertUnavailable(() => me.get(path));
    await assertUnavailable(() => admin.get('/admin/ledger/verification/'));
    const zip = await createZip({ 'run.sh': 'true\n' });
    await assertUnavailable(() => me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh' }, zip));
    assert.deepEqual(listFilesUnder(server, 'spool'), []);
    assertProblem(await me.get('/readyz'), { status: 503, code: 'unavailable', message: /database does not respond/ });
    assert.equal((await me.get('/livez')).status, 200);
  });

  test(`accepts and runs jobs again without a restart when PostgreSQL is back (${signal})`, async () => {
    await postgres.start();
    await until('the server is ready', isReady);
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
    assert.equal(status, 201);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    assert.equal(server.process.exitCode, null, server.log());
  });
}

test('settles a job that ended during an outage', async () => {
  await postgres.stop();
  releaseJob(server, running);
  // How long the watcher goes on without the database depends on its lease, so it has perhaps stopped before.
  const end = join(server.data, 'engines/hpc_one', running.job_id, 'exit.json');
  await until('the job has ended', () => existsSync(end) || undefined);
  await postgres.start();
  await until('the server is ready', isReady);
  assert.equal((await me.waitUntilFinished(running)).stage, 'SUCCESSFUL');
});

test('replaces terminated connections', async () => {
  for (let round = 0; round < 5; round++) {
    await postgres.query(
      'postgres',
      "select pg_terminate_backend(pid) from pg_stat_activity where datname = 'bursar' and pid <> pg_backend_pid()",
    );
    const responses = await Promise.all(Array.from({ length: 20 }, () => me.get('/jobs/')));
    for (const { status } of responses) assert.ok(status === 200 || status === 503, String(status));
    await until('the server is ready', isReady);
  }
});

test('the ledger balances after all outages, and no internal error was logged', async () => {
  const { body } = await admin.get<{ balanced: boolean }>('/admin/ledger/verification/');
  assert.equal(body.balanced, true);
  assert.doesNotMatch(server.log(), /"code":"internal"|Unhandled|uncaught/i);
});
