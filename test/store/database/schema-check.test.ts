import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, type TestContext, test } from 'node:test';
import { sql } from 'kysely';
import { openDatabase } from '../../../src/store/database/database.ts';
import { describeSchema, findSchemaDifferences } from '../../../src/store/database/schema-check.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { databaseSettings, withDatabase } from '../../support/database.ts';
import { startServer } from '../../support/server.ts';
import { openTestDatabase } from '../../support/test-database.ts';

const expectedSchema = JSON.parse(
  readFileSync(new URL('../../../src/store/database/expected-schema.json', import.meta.url), 'utf8'),
);

/** Creates a database, as a version with these migrations in addition would have done, and opens it again. */
async function reopenAfter(t: TestContext, statements: readonly string[]): Promise<void> {
  const { db, folder, close } = await openTestDatabase([], 1, 1);
  t.after(close);
  for (const statement of statements) await sql.raw(statement).execute(db);
  await (await openDatabase(databaseSettings(folder), folder)).destroy();
}

describe('the schema of the database', () => {
  test('is the expected one after all migrations ("npm run docs" updates expected-schema.json)', async (t) => {
    const { db, close } = await openTestDatabase([], 1, 1);
    t.after(close);
    assert.deepEqual(await describeSchema(db), expectedSchema);
  });

  test('is compared while a transaction writes', async (t) => {
    const { db, close } = await openTestDatabase(['1'], 1, 1);
    t.after(close);
    await inTransaction(db, async (tx) => {
      await tx.updateTable('users').set({ name: 'Ada' }).execute();
      assert.deepEqual(await findSchemaDifferences(db), []);
    });
  });

  for (const [difference, ...statements] of [
    ['column jobs.units is missing', 'alter table jobs rename column units to amount'],
    ['column inputs.content is missing', 'drop table inputs'],
    ['index jobs_by_title is missing', 'drop index jobs_by_title'],
    [
      'column settings.value is "bigint not null" instead of "text not null"',
      'drop table settings',
      'create table settings (name text primary key, value bigint not null)',
    ],
    [
      'column settings.kind is not known',
      'drop table settings',
      'create table settings (name text primary key, value text not null, kind text not null)',
    ],
  ] as const) {
    test(`is refused if ${difference}, in one line that says what to do`, async (t) => {
      await assert.rejects(reopenAfter(t, statements), (error: Error & { code?: string }) => {
        assert.equal(error.code, 'schema_differs', error.stack);
        assert.ok(error.message.includes(difference), error.message);
        assert.match(error.message, /^[^\n]*use that version, or restore a backup[^\n]*"bursar db status"[^\n]*$/);
        return true;
      });
    });
  }

  test('may have the indexes, columns and tables that an operator or a newer version has added', async (t) => {
    await reopenAfter(t, [
      'create index jobs_by_reason on jobs (reason)',
      'alter table jobs add column note text',
      'alter table jobs add column weight bigint not null default 1',
      'create table notes (id bigint primary key, text text not null)',
      'create index jobs_by_lower_title on jobs (lower(title))',
      'create table marks (id bigint)',
    ]);
  });

  test('that changes under a running server makes it not ready, and "db status" lists the differences', async (t) => {
    const server = await startServer();
    t.after(() => server.dispose());
    const readyz = async () => (await fetch(`${server.url}/readyz`)).status;
    assert.equal(await readyz(), 200);
    assert.match((await server.bursar('db', 'status')).stdout, /^Schema: +up to date$/m);
    await withDatabase(server.data, (db) => sql`alter table settings rename column value to content`.execute(db));
    assert.equal(await readyz(), 503);
    const problem = (await (await fetch(`${server.url}/readyz`)).json()) as { detail: string };
    assert.match(problem.detail, /The schema of the database has changed: column settings\.value is missing\./);
    await assert.rejects(server.bursar('db', 'status'), ({ code, stdout }) => {
      assert.equal(code, 1);
      assert.match(
        stdout,
        /^Schema: +not the one of this version of Bursar:\n {2}column settings\.value is missing\n/m,
      );
      return true;
    });
  });
});
