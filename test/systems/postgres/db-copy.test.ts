import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connectDatabase, type DatabaseSettings } from '../../../src/store/database/database.ts';
import { defaultProjectPath } from '../../support/accounting-fixture.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { bursarProcess } from '../../support/command-line.ts';
import { getLedgerVerification, postAsAdmin, topUp } from '../../support/ledger.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../../support/server-process.ts';
import { readAllRows } from '../../support/tables.ts';

// `bursar db copy` from SQLite to PostgreSQL and back.

let postgres: TestPostgres;
let server: ServerProcess;
let url: string;
const folder = mkdtempSync(join(tmpdir(), 'bursar-move-'));
const paths = ['/jobs/', '/quotas/', `/quotas/${defaultProjectPath}/statement/`];

const settings = (address: string): DatabaseSettings => ({
  url: address,
  connections: 2,
});
async function readRows(address: string, data: string) {
  const db = connectDatabase(settings(address), data);
  return await readAllRows(db).finally(() => db.destroy());
}
const db = (...args: string[]) => bursarProcess(['db', ...args], { BURSAR_DATA: server.data });
const readResponses = async ({ url: serverUrl }: ServerProcess, token: string) => {
  const texts = await Promise.all(paths.map(async (path) => (await createCaller(serverUrl, token).get(path)).text));
  // A statement contains its end time, and rates computed from it.
  return texts.map((text) => text.replace(/"to":"[^"]*"|"burn_rate_per_day":[^,]*|"runs_out_at":[^,}]*/g, ''));
};

before(async () => {
  postgres = await startPostgres({ durable: true });
  url = await postgres.database('bursar');
  server = await spawnServer();
  const me = createCaller(server.url, server.userToken);
  const admin = createCaller(server.url, server.adminToken);
  await server.token('301331');
  await topUp(admin, '301330', 1000);
  await postAsAdmin(admin, `/admin/grants/${defaultProjectPath}/transfers/`, {
    from: '301330',
    to: '301331',
    resource: 'time',
    amount: 10,
    reason: 'a gift with “quotes”, ümlauts and 漢字',
  });
  for (const command of ['true', 'false', 'echo hello']) {
    const { body } = await me.submit('/jobs/hpc_one/', { command, runtime: 0.1, title: `Título ${command}` });
    await me.waitUntilFinished(body);
  }
  const { body: deleted } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
  await me.waitUntilFinished(deleted);
  await me.send('DELETE', `/jobs/${defaultProjectPath}/${deleted.job_id}/`);
  // An input, as of a job that waits for its engine.
  const sqlite = connectDatabase(settings('sqlite:bursar.db'), server.data);
  const content = randomBytes(50_000);
  await sqlite.insertInto('inputs').values({ job: deleted.id, content }).execute();
  await sqlite.destroy();
});
after(async () => {
  await server.dispose();
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('bursar db copy', () => {
  test('fails with exit code 5 while a server uses the source', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.equal(code, 5, stderr);
    assert.match(stderr, /Another Bursar server uses/);
  });

  test('copies every row, and the ledger balances', async () => {
    await server.stop();
    const { code, stdout, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^Copied to postgres:\/\/bursar:\*+@.*: \d+ rows\.\nThe ledger balances: /);
    assert.deepEqual(await readRows(url, server.data), await readRows('sqlite:bursar.db', server.data));
    assert.deepEqual(
      readdirSync(server.data).filter((name) => name.startsWith('copy-')),
      [],
    );
  });

  test('rejects a target that is not empty', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.equal(code, 1);
    assert.match(stderr, /The target is not empty: its table \w+ has \d+ rows\. Use a new database\./);
  });

  test('rejects a source that does not exist, and does not create it', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:nowhere.db', '--to', url);
    assert.equal(code, 4, stderr);
    assert.ok(!readdirSync(server.data).includes('nowhere.db'));
  });

  test('a server on the copy returns identical responses, and continues the numbering of jobs', async () => {
    const { data, userToken, adminToken } = server;
    const sqliteServer = await spawnServer({ data });
    const expected = await readResponses(sqliteServer, userToken);
    await sqliteServer.stop();
    server = await spawnServer({ data, env: { BURSAR_DATABASE_URL: url } });
    assert.deepEqual(await readResponses(server, userToken), expected);
    const me = createCaller(server.url, userToken);
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
    assert.equal(status, 201);
    assert.equal(body.id, Math.max(...jobs.map(({ id }) => id)) + 1);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    assert.deepEqual((await getLedgerVerification(createCaller(server.url, adminToken))).problems, []);
  });

  test('copies back to SQLite, and keeps the sequences', async () => {
    const { data } = server;
    await server.stop();
    const backUrl = `sqlite:${join(folder, 'back.db')}`;
    const { code, stdout, stderr } = await db('copy', '--from', url, '--to', backUrl);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    assert.deepEqual(await readRows(backUrl, data), await readRows(url, data));
    const sequences = await postgres.query<{ n: number }>('bursar', 'select last_value::int as n from entries_id_seq');
    const file = connectDatabase(settings(backUrl), data);
    const { rows } = await file.executeQuery<{ seq: number }>(
      (await import('kysely')).CompiledQuery.raw("select seq from sqlite_sequence where name = 'entries'"),
    );
    await file.destroy();
    assert.equal(rows[0]?.seq, sequences[0]?.n);
  });
});
