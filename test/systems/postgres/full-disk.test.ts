import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { type Caller, createCaller, type Job } from '../../support/api.ts';
import { chownToPostgres, startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { assertProblem } from '../../support/problems.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { mountSmallDisk, type SmallDisk } from '../../support/small-disk.ts';
import { until } from '../../support/until.ts';
import { createZip } from '../../support/zip.ts';

// The tables are on a disk that is full for a while. The rest of PostgreSQL and the data folder are not.

let postgres: TestPostgres;
let disk: SmallDisk;
let server: ServerProcess;
let me: Caller;

before(async () => {
  postgres = await startPostgres();
  disk = mountSmallDisk(64);
  const location = join(disk.folder, 'tables');
  mkdirSync(location);
  chownToPostgres(location);
  await postgres.query('postgres', `create tablespace small location '${location}'`);
  await postgres.query('postgres', 'create database bursar tablespace small');
  server = await spawnServer({ env: { BURSAR_DATABASE_URL: postgres.url('bursar') } });
  me = createCaller(server.url, server.userToken);
});
after(async () => {
  disk.free();
  await server.dispose();
  await postgres.close();
  disk.unmount();
});

// Stored in the database, which needs new pages for it.
const submit = async () =>
  me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 }, await createZip({ data: randomBytes(60_000) }));
const isReady = async () => ((await me.get('/readyz')).status === 200 ? true : undefined);

test('a full disk of PostgreSQL is 503 until space is free, and accepted jobs end', async () => {
  const accepted: Job[] = [];
  disk.fill();
  const refused = await until('a submission is refused', async () => {
    const response = await submit();
    if (response.status !== 201) return response;
    accepted.push(response.body);
    return undefined;
  });
  const code = 'storage_unavailable';
  assertProblem(refused, { status: 503, code, message: /disk .*is full \(53100\).*Try again later/ });
  assert.match(refused.headers.get('retry-after') ?? '', /^\d+$/);
  assertProblem(await me.get('/readyz'), { status: 503, code: 'unavailable', message: /disk .*is full/ });

  disk.free();
  await until('the server is ready', isReady);
  const { status, body } = await submit();
  assert.equal(status, 201);
  for (const job of [...accepted, body]) assert.equal((await me.waitUntilFinished(job)).stage, 'SUCCESSFUL');
  assert.equal((await me.get<Job[]>('/jobs/')).body.length, accepted.length + 1);
  const proof = await createCaller(server.url, server.adminToken).get<{ balanced: boolean }>(
    '/admin/ledger/verification/',
  );
  assert.equal(proof.body.balanced, true);
});
