import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { chunks } from '../../../src/store/database/chunks.ts';
import { listUsageOfAllUsers, toMonth } from '../../../src/store/ledger/monthly-usage.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const months = ['2026-01', '2026-02'];
const users = Array.from({ length: 1500 }, (_, index) => String(600_000 + index));

describe('the usage of all users', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase([], 1000, 1000);
    const { db } = database;
    const { id: project_id } = await db.selectFrom('projects').select('id').executeTakeFirstOrThrow();
    for (const chunk of chunks(users)) {
      const rows = chunk.map((id) => ({ id, role: 'user' as const, created_at: 1 }));
      await db.insertInto('users').values(rows).execute();
      for (const month of months) {
        const usage = chunk.map((user_id) => ({ month, project_id, user_id, jobs: 1, time_seconds: 0 }));
        await db.insertInto('monthly_usage').values(usage).execute();
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

  test('has months of UTC, which entries and migrations find alike', async () => {
    const { db } = database;
    const start = Date.UTC(2026, 1);
    for (const [at, expected] of [
      [start - 1, '2026-01'],
      [start, '2026-02'],
    ] as const) {
      const month = sql.raw(db.backend.dialect.toMonth(`cast(${at} as bigint)`));
      const { rows } = await sql<{ month: string }>`select ${month} as month`.execute(db);
      assert.deepEqual([toMonth(at), rows[0]?.month], [expected, expected]);
    }
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
        .updateTable('monthly_usage')
        .set((eb) => ({ time_seconds: eb('time_seconds', '+', 1) }))
        .execute();
    const amounts = new Set((await listed).flat().map(({ timeSeconds }) => timeSeconds));
    assert.ok(ends > 0);
    assert.equal(amounts.size, 1, `seconds: ${[...amounts]}`);
  });
});
