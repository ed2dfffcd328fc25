import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { maxInMemoryBytes } from '../../../src/files/spool/spool.ts';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { readOutput } from '../../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type PostgresProxy, startProxy } from '../../support/postgres-proxy.ts';
import { assertProblem, listFilesUnder } from '../../support/problems.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// The connection to PostgreSQL breaks during the COMMIT of a submission.

let postgres: TestPostgres;
let proxy: PostgresProxy;
let server: ServerProcess;
let me: Caller;

before(async () => {
  postgres = await startPostgres({ durable: true });
  proxy = await startProxy(postgres.port);
  const url = (await postgres.database('bursar')).replace(/:\d+\//, `:${proxy.port}/`);
  server = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
  me = createCaller(server.url, server.userToken);
});
after(async () => {
  await server.dispose();
  await proxy.close();
  await postgres.close();
});

const listTitles = async () => (await me.get<Job[]>('/jobs/')).body.map(({ title }) => title);
// Too large for the database, so it is stored in the spool.
const makeZip = () =>
  createZip({ 'run.sh': '#!/bin/sh\ncat data\n', data: 'as it was sent\n', more: randomBytes(maxInMemoryBytes) });
const submit = async (title: string) =>
  me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh', title, runtime: 0.1 }, await makeZip());

async function assertRan(job: Job): Promise<void> {
  const { stage } = await me.waitUntilFinished(job);
  assert.equal(stage, 'SUCCESSFUL');
  assert.equal(readOutput(server, job), 'as it was sent\n');
}

async function assertLedgerBalanced(): Promise<void> {
  const { body } = await createCaller(server.url, server.adminToken).get<{ balanced: boolean }>(
    '/admin/ledger/verification/',
  );
  assert.equal(body.balanced, true);
}

test('returns 503 if the COMMIT does not arrive, and stores, holds and leaves nothing', async () => {
  const before = await me.quota('hpc_one', 'proj_hpc_one_01');
  proxy.breakCommitOf('job lost', 'lost');
  const response = await submit('job lost');
  assertProblem(response, { status: 503, code: 'database_unavailable' });
  assert.match(response.headers.get('retry-after') ?? '', /^\d+$/);
  assert.deepEqual(await listTitles(), []);
  assert.deepEqual(listFilesUnder(server, 'spool'), []);
  assert.deepEqual(await me.quota('hpc_one', 'proj_hpc_one_01'), before);
  await assertLedgerBalanced();
});

test('returns 201 if the response to the COMMIT is lost, and the job runs with its files', async () => {
  proxy.breakCommitOf('job unanswered', 'unanswered');
  const response = await submit('job unanswered');
  assert.equal(response.status, 201, response.text);
  assert.deepEqual(await listTitles(), ['job unanswered']);
  await assertRan(response.body);
  await assertLedgerBalanced();
});

test('waits for a COMMIT that arrives late, and returns 201', async () => {
  proxy.breakCommitOf('job late', 'late');
  const submitting = submit('job late');
  await until('the server waits for the end of the transaction', async () => {
    const waiting = "select 1 from pg_stat_activity where datname = 'bursar' and wait_event_type = 'Lock'";
    return (await postgres.query('bursar', waiting)).length > 0 || undefined;
  });
  proxy.sendLateCommit();
  const response = await submitting;
  assert.equal(response.status, 201, response.text);
  await assertRan(response.body);
  await assertLedgerBalanced();
});

test('returns 503 if the database stays unreachable after the COMMIT, keeps the zip, and runs the job later', async () => {
  proxy.breakCommitOf('job away', 'away');
  const response = await submit('job away');
  assertProblem(response, {
    status: 503,
    code: 'database_unavailable',
    message: /unknown whether the job exists.*Check the list of your jobs/,
  });
  assert.equal(listFilesUnder(server, 'spool').length, 1);
  proxy.acceptConnections();
  const job = await until('the job is in the list', async () => {
    const { status, body } = await me.get<Job[]>('/jobs/');
    return status === 200 ? body.find(({ title }) => title === 'job away') : undefined;
  });
  await assertRan(job);
  assert.equal(existsSync(join(server.data, 'spool', `${job.job_id}.zip`)), false);
  await assertLedgerBalanced();
});
