import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { fillDatabase } from '../../../bench/fill.ts';
import { toHpcSystems } from '../../../src/config/hpc-systems.ts';
import { chunks } from '../../../src/domain/chunks.ts';
import { listUsageOfAllUsers, toMonth } from '../../../src/store/ledger/monthly-usage.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const months = ['2026-01', '2026-02'];
const users = Array.from({ length: 1500 }, (_, index) => String(600_000 + index));

describe('the usage of all users', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase([], 1000, 1000);
    const { db } = database;
    const { id: projectId } = await db.selectFrom('projects').select('id').executeTakeFirstOrThrow();
    for (const chunk of chunks(users)) {
      const rows = chunk.map((id) => ({ id, role: 'user' as const, createdAt: 1 }));
      await db.insertInto('users').values(rows).execute();
      for (const month of months) {
        const usage = chunk.map((userId) => ({ month, projectId, userId, jobs: 1, timeSeconds: 0 }));
        await db.insertInto('monthlyUsage').values(usage).execute();
      }
    }
  });
  after(() => database.close());

  test('is ordered, in batches of one month and project', async () => {
    const batches = await listUsageOfAllUsers(database.db);
    for (const batch of batches) assert.equal(new Set(batch.map(({ month }) => month)).size, 1);
    assert.ok(batches.every(({ length }) => length <= 1000));
    assert.deepEqual(
      batches.flat().map(({ month, user }) => `${month} ${user}`),
      months.flatMap((month) => users.map((user) => `${month} ${user}`)),
    );
  });

  test('is that of one time, although other requests are handled and jobs end meanwhile', async () => {
    const { db } = database;
    const listing = { isOver: false };
    const listed = listUsageOfAllUsers(db).finally(() => {
      listing.isOver = true;
    });
    let ends = 0;
    for (; !listing.isOver; ends++)
      await db
        .updateTable('monthlyUsage')
        .set((eb) => ({ timeSeconds: eb('timeSeconds', '+', 1) }))
        .execute();
    const amounts = new Set((await listed).flat().map(({ timeSeconds }) => timeSeconds));
    assert.ok(ends > 0);
    assert.equal(amounts.size, 1, `seconds: ${[...amounts]}`);
  });

  test('has months of UTC', () => {
    const start = Date.UTC(2026, 1);
    assert.deepEqual([start - 1, start].map(toMonth), ['2026-01', '2026-02']);
  });
});

test('the verification compares the usage with the entries', async () => {
  const { db, config, close } = await openTestDatabase(['1'], 1000, 1000);
  try {
    await fillDatabase(db, { users: 3, jobs: 50, systems: Object.fromEntries(toHpcSystems(config)) });
    const usage = await db.selectFrom('monthlyUsage').select('jobs').execute();
    assert.equal(
      usage.reduce((sum, { jobs }) => sum + jobs, 0),
      50,
    );
    assert.deepEqual((await verifyLedger(db)).problems, []);
    await db.deleteFrom('monthlyUsage').where('userId', '=', '600001').execute();
    const { problems } = await verifyLedger(db);
    assert.match(
      problems[0] ?? '',
      /^user 600001: the usage of project \d+ in \d{4}-\d\d is not the sum of its entries$/,
    );
  } finally {
    await close();
  }
});
