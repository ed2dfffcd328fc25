import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { bursarProcess } from '../../support/command-line.ts';
import { startPostgres, type TestPostgres } from '../../support/postgres.ts';
import { spawnServer } from '../../support/server-process.ts';

// `bursar serve` when it cannot use its database: exit code and message.

let postgres: TestPostgres;
const folder = mkdtempSync(join(tmpdir(), 'bursar-start-'));

before(async () => {
  postgres = await startPostgres();
});
after(async () => {
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

async function assertRefused(url: string, exitCode: number, message: RegExp): Promise<void> {
  const settings = { BURSAR_DATA: folder, BURSAR_PORT: '0', BURSAR_DATABASE_URL: url };
  const { code, stdout, stderr } = await bursarProcess(['serve'], settings);
  assert.deepEqual([code, stdout], [exitCode, ''], stderr);
  assert.match(stderr, message);
  assert.doesNotMatch(stderr, /^\s+at |word%2F|word\//m, 'no stack trace, no password');
}

test('a PostgreSQL server that does not run: exit code 1, with host and port', async () => {
  const url = postgres.url('bursar').replace(/:\d+\//, ':9/');
  await assertRefused(url, 1, /^Cannot connect to PostgreSQL at 127\.0\.0\.1 port 9 .*ECONNREFUSED.*\. Start it/m);
});

test('a socket that does not exist: exit code 1, with its folder', async () => {
  await assertRefused(
    'postgres:///bursar?host=/nowhere',
    1,
    /^Cannot connect to PostgreSQL at the socket in \/nowhere/m,
  );
});

test('a wrong password: exit code 3, with the user name', async () => {
  const url = postgres.url('postgres').replace(/:[^:@]*@/, ':wrong@');
  await assertRefused(url, 3, /rejects the user bursar .*Correct the user and password/);
});

test('a database that does not exist: exit code 3, with the command that creates it', async () => {
  await assertRefused(postgres.url('nowhere'), 3, /has no database nowhere\. Create it: createdb nowhere/);
});

test('a user without the permission to create tables: exit code 3', async () => {
  const url = await postgres.database('others');
  await postgres.query('others', "create role guest login password 'guest'");
  await assertRefused(
    url.replace(/\/\/[^@]*@/, '//guest:guest@'),
    3,
    /guest may not create tables in the database others/,
  );
});

test('a PostgreSQL server that is too old: exit code 1, with the required version', async () => {
  const url = await postgres.database('old');
  // Only one version is installed, so this makes it report another one.
  await postgres.query('old', 'alter database old set search_path = public, pg_catalog');
  await postgres.query(
    'old',
    "create function public.current_setting(text) returns text language sql as $$ select '130014' $$",
  );
  await assertRefused(url, 1, /is version 13\. Bursar needs version 14 or newer/);
});

test('a schema of a newer version of Bursar: exit code 1', async () => {
  const url = await postgres.database('newer');
  const first = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
  await first.dispose();
  await postgres.query('newer', "insert into kysely_migration values ('9999-later', '2099-01-01T00:00:00.000Z')");
  await assertRefused(url, 1, /has the migration 9999-later, which this version of Bursar does not know/);
});

test('a second server on the same database with another data folder: exit code 3', async () => {
  const url = await postgres.database('shared');
  const first = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
  try {
    await assertRefused(url, 3, /is not the data folder of this database.*mount it here/s);
  } finally {
    await first.dispose();
  }
});

test('a server starts at once after the previous one was killed', async () => {
  const url = await postgres.database('killed');
  const first = await spawnServer({ env: { BURSAR_DATABASE_URL: url } });
  await first.kill();
  const second = await spawnServer({ data: first.data, env: { BURSAR_DATABASE_URL: url } });
  assert.equal(second.adminToken, '', 'not a first start');
  await second.dispose();
});

test('config print hides the password of the database', async () => {
  const url = postgres.url('bursar');
  const { stdout } = await bursarProcess(['config', 'print'], { BURSAR_DATABASE_URL: url });
  assert.match(stdout, /url: postgres:\/\/bursar:\*+@127\.0\.0\.1/);
});
