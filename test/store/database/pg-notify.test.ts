import assert from 'node:assert/strict';
import { sql } from 'kysely';
import { openPgNotify } from '../../../src/store/database/pg-notify.ts';
import { databaseSettings, postgresTest } from '../../support/database.ts';
import { openTestDatabase } from '../../support/test-database.ts';

postgresTest('an instance that has opened notifications listens to those of the others', async (t) => {
  const { db, folder, close } = await openTestDatabase([], 1, 1);
  t.after(close);
  const pgNotify = await openPgNotify(db, databaseSettings(folder));
  t.after(() => pgNotify.close());
  const { rows } = await sql`select 1 from pg_stat_activity where datname = current_database()
    and query = 'listen bursar'`.execute(db);
  assert.equal(rows.length, 1);
});
