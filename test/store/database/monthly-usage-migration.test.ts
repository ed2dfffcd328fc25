import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fillDatabase } from '../../../bench/fill.ts';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { applyMigrations } from '../../../src/store/database/migrations.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { undoMigrations } from './undo-migrations.ts';

describe('the migration to monthly usage', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1'], 1000, 1000);
  });
  after(() => database.close());

  test('sums up the entries of earlier jobs, and the verification compares the sums with the entries', async () => {
    const { db, config } = database;
    await fillDatabase(db, { users: 3, jobs: 50, systems: Object.fromEntries(toHpcSystems(config)) });
    const readUsage = () => db.selectFrom('monthly_usage').selectAll().orderBy('month').orderBy('user_id').execute();
    const before = await readUsage();
    assert.equal(
      before.reduce((sum, { jobs }) => sum + jobs, 0),
      50,
    );
    await db.deleteFrom('monthly_usage').where('user_id', '=', '600001').execute();
    const { problems } = await verifyLedger(db);
    assert.match(
      problems[0] ?? '',
      /^user 600001: the usage of project \d+ in \d{4}-\d\d is not the sum of its entries$/,
    );

    await undoMigrations(db, '0013');
    await applyMigrations(db);
    assert.deepEqual(await readUsage(), before);
    assert.deepEqual((await verifyLedger(db)).problems, []);
  });
});
