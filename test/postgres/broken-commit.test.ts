import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { maxInMemoryBytes } from '../../src/files/spool/upload-buffer.ts';
import { type Caller, createCaller, type Job } from '../support/api.ts';
import { readOutput } from '../support/jobs.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { type PostgresProxy, startProxy } from '../support/postgres-proxy.ts';
import { assertProblem, listFilesUnder } from '../support/problems.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { until } from '../support/until.ts';
import { createZip } from '../support/zip.ts';

// The connection breaks in the very moment of a submission's COMMIT.

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

const titles = async () => (await me.get<Job[]>('/jobs/')).body.map(({ title }) => title);
// Too large to be kept with its job: it is a file of the spool.
const zip = () =>
  createZip({ 'run.sh': '#!/bin/sh\ncat data\n', data: 'as it was sent\n', more: randomBytes(maxInMemoryBytes) });
const submit = async (title: string) =>
  me.submit('/jobs/hpc_one/', { command: 'sbatch run.sh', title, runtime: 0.1 }, await zip());

async function assertRan(job: Job): Promise<void> {
  const { stage } = await me.waitUntilFinished(job);
  assert.equal(stage, 'SUCCESSFUL');
  assert.equal(readOutput(server, job), 'as it was sent\n');
}

async function assertBooks(): Promise<void> {
  const { body } = await createCaller(server.url, server.adminToken).get<{ balanced: boolean }>('/admin/ledger/proof/');
  assert.equal(body.balanced, true);
}

test('a COMMIT that never arrives: 503, nothing is stored, held or left', async () => {
  const before = await me.quota('hpc_one', 'proj_hpc_one_01');
  proxy.breakNextCommit('lost');
  const answer = await submit('lost');
  assertProblem(answer, { status: 503, code: 'database_unavailable' });
  assert.match(answer.headers.get('retry-after') ?? '', /^\d+$/);
  assert.deepEqual(await titles(), []);
  assert.deepEqual(listFilesUnder(server, 'spool'), []);
  assert.deepEqual(await me.quota('hpc_one', 'proj_hpc_one_01'), before);
  await assertBooks();
});

test('a COMMIT whose answer is lost: 201 all the same, and the job runs with its files', async () => {
  proxy.breakNextCommit('unanswered');
  const answer = await submit('unanswered');
  assert.equal(answer.status, 201, answer.text);
  assert.deepEqual(await titles(), ['unanswered']);
  await assertRan(answer.body);
  await assertBooks();
});

test('a COMMIT that arrives late: it is waited for, and 201', async () => {
  proxy.breakNextCommit('late');
  const answer = await submit('late');
  assert.equal(answer.status, 201, answer.text);
  await assertRan(answer.body);
  await assertBooks();
});

test('a COMMIT after which the database stays away: 503 that says so, the zip stays, and the job runs later', async () => {
  proxy.breakNextCommit('away');
  const answer = await submit('away');
  assertProblem(answer, {
    status: 503,
    code: 'database_unavailable',
    message: /unknown whether the job exists.*Check the list of your jobs/,
  });
  assert.equal(listFilesUnder(server, 'spool').length, 1);
  proxy.acceptConnections();
  const job = await until('the job in the list', async () => {
    const { status, body } = await me.get<Job[]>('/jobs/');
    return status === 200 ? body.find(({ title }) => title === 'away') : undefined;
  });
  await assertRan(job);
  assert.equal(existsSync(join(server.data, 'spool', `${job.job_id}.zip`)), false);
  await assertBooks();
});
