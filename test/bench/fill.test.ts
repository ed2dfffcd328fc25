import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fillDatabase } from '../../bench/fill.ts';
import { toHpcSystems } from '../../src/config/hpc-systems.ts';
import { publicJob } from '../../src/contract/job.ts';
import { hashToken } from '../../src/services/identity/tokens.ts';
import { findTokenByHash } from '../../src/store/identity/tokens.ts';
import { toJobRecord } from '../../src/store/jobs/jobs.ts';
import { verifyLedger } from '../../src/store/ledger/verify-ledger.ts';
import { openTestDatabase, type TestDatabase } from '../support/test-database.ts';

describe('the fill of the benchmarks', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1'], 1000, 1000);
  });
  after(() => database.close());

  test('stores jobs like real ones, also for users who have some', async () => {
    const { db, config } = database;
    const systems = toHpcSystems(config);
    const options = { users: 7, systems: Object.fromEntries(systems) };
    await fillDatabase(db, { ...options, jobs: 100 });
    const users = await fillDatabase(db, { ...options, jobs: 120 });

    assert.deepEqual((await verifyLedger(db)).problems, []);
    const rows = await db.selectFrom('jobs').selectAll().orderBy('id').execute();
    assert.equal(rows.length, 220);
    for (const row of rows) {
      const stages = systems.get(row.hpc)?.stages;
      assert.ok(stages);
      assert.equal(row.publicJson, publicJob(toJobRecord(row), stages).json);
    }
    for (const { id, token } of users) {
      assert.equal((await findTokenByHash(db, hashToken(token)))?.userId, id);
      const user = await db.selectFrom('users').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
      assert.equal(user.jobsVersion, rows.filter(({ owner }) => owner === id).length);
      const events = await db.selectFrom('events').selectAll().where('userId', '=', id).orderBy('seq').execute();
      assert.deepEqual(
        events.map(({ seq }) => seq),
        Array.from({ length: user.eventSeq }, (_, index) => index + 1),
      );
      for (const { data } of events) JSON.parse(data);
    }
  });
});
