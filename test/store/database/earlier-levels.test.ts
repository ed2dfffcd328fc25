import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, describe, test } from 'node:test';
import Sqlite from 'better-sqlite3';
import pg from 'pg';
import { connectDatabase } from '../../../src/store/database/database.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { migrationNotes } from '../../../src/store/database/migration-notes.ts';
import {
  createMigrator,
  getSchemaStatus,
  listPendingMigrations,
  migrate,
} from '../../../src/store/database/migrations.ts';
import { verifyAudit } from '../../../src/store/identity/verify-audit.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { databaseSettings, dropDatabase, postgresTest } from '../../support/database.ts';
import { startServer } from '../../support/server.ts';

// The database of every earlier migration, with jobs in all states, is migrated and proved.

const fixtures = new URL('../../fixtures/databases/', import.meta.url);
const folders: string[] = [];
after(async () => {
  for (const folder of folders) {
    await dropDatabase(folder);
    rmSync(folder, { recursive: true, force: true });
  }
});

const isPostgres = process.env.BURSAR_TEST_DATABASE === 'postgres';

/** Loads a fixture. On PostgreSQL the migrations make the tables; the rows are the same. */
async function loadFixture(name: string): Promise<{ db: Db; folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-level-'));
  folders.push(folder);
  const text = readFileSync(new URL(name, fixtures), 'utf8');
  if (!isPostgres) {
    const sqlite = new Sqlite(join(folder, 'bursar.db'));
    sqlite.pragma('foreign_keys = off');
    sqlite.exec(`begin; ${text}; commit`);
    sqlite.close();
    return { db: connectDatabase(databaseSettings(folder), folder), folder };
  }
  await withClient('postgres', (client) => client.query(`create database "${basename(folder)}"`));
  const db = connectDatabase(databaseSettings(folder), folder);
  const [, level = ''] = /^-- .* migration (\S+)\.\n/.exec(text) ?? [];
  const { error } = await createMigrator(db).migrateTo(level);
  if (error !== undefined) throw error;
  const rows = text.split('\n').filter((line) => /^insert into (?!kysely)/.test(line));
  // The order of the tables does not follow their foreign keys.
  await withClient(basename(folder), (client) =>
    client.query(
      `set session_replication_role = replica; ${rows.join('\n').replace(/\bx'([0-9a-f]+)'/g, "'\\x$1'")} ${setSequences}`,
    ),
  );
  return { db, folder };
}

/** New rows get ids beyond those of the fixture. */
const setSequences = `do $$ declare r record; begin
  for r in select table_name from information_schema.columns where is_identity = 'YES' and table_schema = 'public' loop
    perform setval(pg_get_serial_sequence(r.table_name, 'id'), 1000);
  end loop; end $$`;

async function withClient<T>(database: string, use: (client: pg.Client) => Promise<T>): Promise<T> {
  const url = (process.env.BURSAR_TEST_POSTGRES ?? '').replace(/[^/]*$/, encodeURIComponent(database));
  const client = new pg.Client({ connectionString: url, application_name: 'bursar other-host 1' });
  await client.connect();
  return await use(client).finally(() => client.end());
}

describe('a database of an earlier version', () => {
  for (const name of readdirSync(fixtures).sort()) {
    test(`at level ${name.slice(0, 4)} is migrated, and nothing is lost`, async () => {
      const { db } = await loadFixture(name);
      try {
        assert.ok((await getSchemaStatus(db)).pending.length > 0);
        await migrate(db);
        assert.deepEqual((await getSchemaStatus(db)).differences, []);
        assert.deepEqual((await verifyLedger(db)).problems, []);
        assert.deepEqual((await verifyAudit(db)).problems, []);
        const jobs = await db
          .selectFrom('jobs')
          .select(['title', 'state', 'terminal', 'failed'])
          .orderBy('id')
          .execute();
        assert.deepEqual(
          jobs.map((job) => Object.values(job).join(' ')),
          [
            'succeeded ended 1 0',
            'failed ended 1 1',
            'deleted deleted 1 0',
            'running running 0 0',
            'queued queued 0 0',
            'cancelled ended 1 0',
            'accepted accepted 0 0',
          ],
        );
        const admins = await db
          .selectFrom('tokens')
          .select('user_id')
          .where('scopes', 'like', '%admin:write%')
          .execute();
        assert.deepEqual(admins, [{ user_id: '300001' }]);
        const roles = await db.selectFrom('users').select(['id', 'role', 'unfinished_jobs']).orderBy('id').execute();
        assert.deepEqual(
          roles.map((user) => Object.values(user)),
          [
            ['300001', 'administrator', 0],
            ['301330', 'user', 3],
          ],
        );
      } finally {
        await db.destroy();
      }
    });
  }

  test('at the first level is served', async () => {
    const { db, folder } = await loadFixture('0001.sql');
    await db.destroy();
    const server = await startServer({ data: folder });
    try {
      const { body } = await createCaller(server.url, await server.token('301330')).get<Job[]>('/jobs/');
      assert.deepEqual(body.map(({ stage }) => stage).slice(0, 3), ['SUCCESSFUL', 'FAILED', 'DELETED']);
    } finally {
      await server.stop();
    }
  });

  postgresTest('is not migrated under servers that would fail', async () => {
    const { db, folder } = await loadFixture('0012.sql');
    try {
      await withClient(basename(folder), async (client) => {
        await client.query('listen bursar');
        await assert.rejects(migrate(db), {
          code: 'conflict',
          message: /0013-monthly-usage .*older version.*: other-host 1\. Stop/,
        });
        assert.equal((await listPendingMigrations(db))[0]?.name, '0013-monthly-usage', 'nothing was changed');
      });
      await migrate(db);
    } finally {
      await db.destroy();
    }
  });
});

test('every migration has a note for operators', async () => {
  const { db } = await loadFixture('0001.sql');
  const { applied, pending } = await getSchemaStatus(db);
  await db.destroy();
  assert.deepEqual([...applied, ...pending], Object.keys(migrationNotes));
});
