import assert from 'node:assert/strict';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { after, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { sql } from 'kysely';
import { connectDatabase, openDatabase } from '../../../src/store/database/database.ts';
import type { Db } from '../../../src/store/database/handle.ts';
import { createMigrator, getSchemaStatus, migrate } from '../../../src/store/database/migrations.ts';
import { verifyAudit } from '../../../src/store/identity/verify-audit.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { createCaller, type Job } from '../../support/api.ts';
import { createEmptyDatabase, databaseSettings, dropDatabase, postgresTest } from '../../support/database.ts';
import { startServer } from '../../support/server.ts';

// The rows of a database at each migration that was released, with jobs in all states, by `scripts/write-upgrade-fixture.ts`.
const fixtures = new URL('../../fixtures/databases/', import.meta.url);
const levels = readdirSync(fixtures)
  .map((file) => basename(file, '.sql'))
  .sort();

const folders: string[] = [];
after(async () => {
  for (const folder of folders) {
    await dropDatabase(folder);
    rmSync(folder, { recursive: true, force: true });
  }
});

async function openEmptyDatabase(): Promise<{ db: Db; folder: string }> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-upgrade-'));
  folders.push(folder);
  await createEmptyDatabase(folder);
  return { db: connectDatabase(databaseSettings(folder), folder), folder };
}

/** Creates a database as the version with this migration left it. */
async function openDatabaseAt(level: string): Promise<{ db: Db; folder: string }> {
  const { db, folder } = await openEmptyDatabase();
  const { error } = await createMigrator(db).migrateTo(level);
  if (error !== undefined) throw error;
  const { dialect } = db.backend;
  for (const line of readFileSync(new URL(`${level}.sql`, fixtures), 'utf8').split('\n')) {
    const insert = dialect.name === 'sqlite' ? line : line.replace(/\bx'([0-9a-f]+)'/g, "'\\x$1'");
    await sql.raw(insert).execute(db);
    const [, table] = /^insert into (\w+) \(id,/.exec(line) ?? [];
    // New rows get ids beyond those of the fixture.
    if (table !== undefined) await dialect.setLastId(db, table, 1000);
  }
  return { db, folder };
}

describe('a database of an earlier version', () => {
  for (const level of levels) {
    test(`at ${level} is migrated, and nothing is lost`, async () => {
      const { db } = await openDatabaseAt(level);
      try {
        await migrate(db);
        const { pending, differences } = await getSchemaStatus(db);
        assert.deepEqual([...pending, ...differences], []);
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
        const users = await db.selectFrom('users').select(['id', 'role', 'unfinishedJobs']).orderBy('id').execute();
        assert.deepEqual(
          users.map((user) => Object.values(user)),
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
    const { db, folder } = await openDatabaseAt(levels[0] ?? '');
    await db.destroy();
    const server = await startServer({ data: folder });
    try {
      const { body } = await createCaller(server.url, await server.token('301330')).get<Job[]>('/jobs/');
      assert.deepEqual(body.map(({ stage }) => stage).slice(0, 3), ['SUCCESSFUL', 'FAILED', 'DELETED']);
    } finally {
      await server.stop();
    }
  });

  test('from before the first release is refused, as one of a later version', async () => {
    const { db, folder } = await openDatabaseAt(levels[0] ?? '');
    for (const name of ['0001-ground', '9999-later']) {
      await sql`update kysely_migration set name = ${name}`.execute(db);
      await assert.rejects(openDatabase(databaseSettings(folder), folder), {
        code: 'schema_unknown',
        message: new RegExp(`has the migration ${name}, .* Use that version, or a new database\\.$`),
      });
    }
    await db.destroy();
  });
});

postgresTest('the migrations at start have no statement timeout', async () => {
  const { db, folder } = await openEmptyDatabase();
  await sql`create table kysely_migration (name varchar(255) primary key, timestamp varchar(255) not null)`.execute(db);
  let migrated: Promise<Db> | undefined;
  await db.transaction().execute(async (tx) => {
    await sql`lock table kysely_migration in share mode`.execute(tx);
    migrated = openDatabase({ ...databaseSettings(folder), statementTimeoutMs: 500 }, folder);
    await Promise.race([migrated, sleep(2000)]);
  });
  await (await migrated)?.destroy();
  await db.destroy();
});
