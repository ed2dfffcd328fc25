import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { Migrator } from 'kysely/migration';
import { connectDatabase } from '../../src/store/database/database.ts';
import { initialSchema } from '../../src/store/database/migrations/0001-initial-schema.ts';
import { createCaller, type Job } from '../support/api.ts';
import { bursar } from '../support/command-line.ts';
import { startPostgres, type TestPostgres } from '../support/postgres.ts';
import { type ServerProcess, spawnServer } from '../support/server-process.ts';
import { readAllRows } from '../support/tables.ts';

// `bursar db backup` and `restore`: one kind of file for both databases, taken while the service works.

let postgres: TestPostgres;
const folder = mkdtempSync(join(tmpdir(), 'bursar-backup-'));
const limits = { connections: 2, connectTimeoutSeconds: 10, statementTimeoutSeconds: 30 };
let number = 0;

before(async () => {
  postgres = await startPostgres({ durable: true });
});
after(async () => {
  await postgres.close();
  rmSync(folder, { recursive: true, force: true });
});

/** A new database of either kind, for a server that has not started yet. */
async function newDatabase(kind: Kind): Promise<string> {
  const name = `books_${number++}`;
  return kind === 'postgres' ? await postgres.database(name) : `sqlite:${join(folder, name, 'bursar.db')}`;
}
const db = (url: string, ...args: string[]) =>
  bursar(['db', ...args], { BURSAR_DATA: folder, BURSAR_DATABASE_URL: url });
async function rowsOf(url: string) {
  const books = connectDatabase({ ...limits, url }, folder);
  return await readAllRows(books).finally(() => books.destroy());
}

type Kind = 'sqlite' | 'postgres';
const ways: [Kind, Kind][] = [
  ['sqlite', 'sqlite'],
  ['sqlite', 'postgres'],
  ['postgres', 'sqlite'],
  ['postgres', 'postgres'],
];

for (const [from, to] of ways) {
  describe(`a backup of ${from}, restored to ${to}`, () => {
    const file = join(folder, `${from}-${to}.backup`);
    let source: string;
    let target: string;
    let server: ServerProcess;
    const before201: string[] = [];

    before(async () => {
      source = await newDatabase(from);
      target = await newDatabase(to);
      server = await spawnServer({ env: { BURSAR_DATABASE_URL: source } });
    });
    after(() => server.dispose());

    test('is taken while jobs are submitted, and has all that was accepted before it', async () => {
      const me = createCaller(server.url, server.userToken);
      let stop = false;
      const submit = async () => {
        while (!stop) {
          const { status, body } = await me.submit('/jobs/hpc_one/', { command: 'true', runtime: 0.01 });
          assert.equal(status, 201);
          if (!existsSync(`${file}.partial`)) before201.push(body.job_id);
        }
      };
      const submitting = [submit(), submit()];
      while (before201.length < 10) await new Promise((resolve) => setTimeout(resolve, 20));
      const known = [...before201];
      const { code, stdout, stderr } = await db(source, 'backup', file);
      stop = true;
      await Promise.all(submitting);
      assert.deepEqual([code, stderr], [0, ''], stdout);
      assert.match(stdout, /^Backed up to .*: \d+ rows\.\nThe ledger balances: \d+ accounts, \d+ entries\.\n$/);
      before201.splice(0, before201.length, ...known);
    });

    test('restores to books that balance and serve', async () => {
      const { code, stdout, stderr } = await db(target, 'restore', file);
      assert.deepEqual([code, stderr], [0, ''], stdout);
      assert.match(stdout, /^Restored from .*: \d+ rows\.\nThe ledger balances: /);
      assert.deepEqual(await rowsOf(target), await rowsOf(`sqlite:${file}`));
      const token = server.userToken;
      await server.stop();
      const restored = await spawnServer({ env: { BURSAR_DATABASE_URL: target } });
      try {
        const { body } = await createCaller(restored.url, token).get<Job[]>('/jobs/');
        const there = new Set(body.map(({ job_id }) => job_id));
        assert.deepEqual(
          before201.filter((jobId) => !there.has(jobId)),
          [],
        );
      } finally {
        await restored.dispose();
      }
    });
  });
}

describe('what backup and restore refuse', () => {
  let source: string;
  const file = join(folder, 'good.backup');

  before(async () => {
    source = await newDatabase('sqlite');
    const server = await spawnServer({ env: { BURSAR_DATABASE_URL: source } });
    await server.dispose();
    assert.equal((await db(source, 'backup', file)).code, 0);
  });

  test('a backup to a file that is there', async () => {
    const text = readFileSync(file);
    const { code, stderr } = await db(source, 'backup', file);
    assert.equal(code, 1);
    assert.match(stderr, /already exists\. Choose another file name/);
    assert.deepEqual(readFileSync(file), text);
  });

  for (const kind of ['sqlite', 'postgres'] as const) {
    test(`a restore to a ${kind} database that is not empty`, async () => {
      const target = await newDatabase(kind);
      assert.equal((await db(target, 'restore', file)).code, 0);
      const rows = await rowsOf(target);
      const { code, stderr } = await db(target, 'restore', file);
      assert.equal(code, 1);
      assert.match(stderr, /The target is not empty/);
      assert.deepEqual(await rowsOf(target), rows);
    });
  }

  test('a restore from what is no backup, which leaves the target empty', async () => {
    const target = await newDatabase('postgres');
    const text = join(folder, 'text.backup');
    writeFileSync(text, 'no backup'.repeat(1000));
    for (const [wrong, code] of [
      [text, 2],
      [join(folder, 'nowhere'), 4],
    ] as const) {
      const result = await db(target, 'restore', wrong);
      assert.equal(result.code, code, result.stderr);
    }
    assert.equal((await db(target, 'restore', file)).code, 0, 'the target is still empty');
    assert.deepEqual(
      readdirSync(folder).filter((name) => /partial|restoring/.test(name)),
      [],
      'nothing is left behind',
    );
  });

  test('a backup of an older Bursar is brought up to date on the way', async () => {
    const old = join(folder, 'old.backup');
    const books = connectDatabase({ ...limits, url: `sqlite:${old}` }, folder);
    const migrations = { '0001-ground': initialSchema(books.backend.dialect) };
    await new Migrator({ db: books, provider: { getMigrations: async () => migrations } }).migrateToLatest();
    await books.executeQuery(
      (await import('kysely')).CompiledQuery.raw("insert into users (id, role, created_at) values ('7', 'user', 1)"),
    );
    await books.destroy();
    const target = await newDatabase('postgres');
    const { code, stdout, stderr } = await db(target, 'restore', old);
    assert.deepEqual([code, stderr], [0, ''], stdout);
    const status = JSON.parse((await db(target, 'status', '--json')).stdout);
    assert.deepEqual([status.pending, status.rows.users], [[], 1]);
  });
});

describe('bursar db status and migrate', () => {
  for (const kind of ['sqlite', 'postgres'] as const) {
    test(`say where a ${kind} database stands, and bring it up to date`, async () => {
      const url = await newDatabase(kind);
      const before = await db(url, 'status');
      assert.equal(before.code, 0, before.stderr);
      assert.match(before.stdout, kind === 'sqlite' ? /does not exist yet/ : /pending migrations: 0001-ground/);
      assert.doesNotMatch(before.stdout, /word/, 'no password');
      assert.match((await db(url, 'migrate')).stdout, /^Migrations applied: 0001-ground/);
      assert.equal((await db(url, 'migrate')).stdout, 'The schema is up to date.\n');
      const { stdout } = await db(url, 'status');
      assert.match(stdout, /Schema: +up to date/);
      assert.match(stdout, /users +0/);
    });
  }
});
