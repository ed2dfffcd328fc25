import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { connectDatabase, type DatabaseSettings } from '../../src/store/database/database.ts';
import { defaultProjectPath } from '../support/accounting-fixture.ts';
import { createCaller, type Job } from '../support/api.ts';
import { bursar } from '../support/command-line.ts';
import { assertLedgerBalances, postAsAdmin, topUp } from '../support/ledger.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { readAllRows } from '../support/tables.ts';

// `bursar db copy`: a small lab that has grown moves from SQLite to PostgreSQL, and could move back.

let postgres: TestPostgres;
let server: ServerProcess;
let url: string;
const folder = mkdtempSync(join(tmpdir(), 'bursar-move-'));
const paths = ['/jobs/', '/quotas/', `/quotas/${defaultProjectPath}/statement/`];

const settings = (address: string): DatabaseSettings => ({
  url: address,
  connections: 2,
  connectTimeoutSeconds: 10,
  statementTimeoutSeconds: 30,
});
async function rowsOf(address: string, data: string) {
  const db = connectDatabase(settings(address), data);
  return await readAllRows(db).finally(() => db.destroy());
}
const db = (...args: string[]) => bursar(['db', ...args], { BURSAR_DATA: server.data });
const answers = async ({ url: at }: ServerProcess, token: string) => {
  const texts = await Promise.all(paths.map(async (path) => (await createCaller(at, token).get(path)).text));
  // A statement tells until when it was made.
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
  const { body: gone } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
  await me.waitUntilFinished(gone);
  await me.send('DELETE', `/jobs/${defaultProjectPath}/${gone.job_id}/`);
  // As that of a job that waits for its engine.
  const books = connectDatabase(settings('sqlite:bursar.db'), server.data);
  const content = randomBytes(50_000);
  await books.insertInto('inputs').values({ job: gone.id, content }).execute();
  await books.destroy();
});
after(async () => {
  await server.dispose();
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

describe('bursar db copy', () => {
  test('refuses while the source is being served, with exit code 5', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.equal(code, 5, stderr);
    assert.match(stderr, /Another Bursar is serving/);
  });

  test('moves every row, and the books balance', async () => {
    await server.stop();
    const { code, stdout, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.deepEqual([code, stderr], [0, '']);
    assert.match(stdout, /^Copied to postgres:\/\/bursar:\*+@.*: \d+ rows\.\nThe ledger balances: /);
    assert.deepEqual(await rowsOf(url, server.data), await rowsOf('sqlite:bursar.db', server.data));
    assert.deepEqual(
      readdirSync(server.data).filter((name) => name.startsWith('copy-')),
      [],
    );
  });

  test('refuses a target that is not empty', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:bursar.db', '--to', url);
    assert.equal(code, 1);
    assert.match(stderr, /The target is not empty: its table \w+ has \d+ rows\. Use a new database\./);
  });

  test('refuses a source that is not there, and makes none', async () => {
    const { code, stderr } = await db('copy', '--from', 'sqlite:nowhere.db', '--to', url);
    assert.equal(code, 4, stderr);
    assert.ok(!readdirSync(server.data).includes('nowhere.db'));
  });

  test('what is served from it afterwards is the same to the letter, and goes on where it stopped', async () => {
    const { data, userToken, adminToken } = server;
    const onFile = await spawnServer({ data });
    const expected = await answers(onFile, userToken);
    await onFile.stop();
    server = await spawnServer({ data, env: { BURSAR_DATABASE_URL: url } });
    assert.deepEqual(await answers(server, userToken), expected);
    const me = createCaller(server.url, userToken);
    const { body: jobs } = await me.get<Job[]>('/jobs/');
    const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.1 });
    assert.equal(status, 201);
    assert.equal(body.id, Math.max(...jobs.map(({ id }) => id)) + 1);
    assert.equal((await me.waitUntilFinished(body)).stage, 'SUCCESSFUL');
    await assertLedgerBalances(createCaller(server.url, adminToken));
  });

  test('and back again: record numbers that were given stay given', async () => {
    const { data } = server;
    await server.stop();
    const back = `sqlite:${join(folder, 'back.db')}`;
    const { code, stdout, stderr } = await db('copy', '--from', url, '--to', back);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    assert.deepEqual(await rowsOf(back, data), await rowsOf(url, data));
    const sequences = await postgres.query<{ n: number }>('bursar', 'select last_value::int as n from entries_id_seq');
    const file = connectDatabase(settings(back), data);
    const { rows } = await file.executeQuery<{ seq: number }>(
      (await import('kysely')).CompiledQuery.raw("select seq from sqlite_sequence where name = 'entries'"),
    );
    await file.destroy();
    assert.equal(rows[0]?.seq, sequences[0]?.n);
  });
});
