import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { sql } from 'kysely';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { endPeriod } from '../../../src/store/ledger/periods.ts';
import { findQuotas, readQuotaRows } from '../../../src/store/ledger/quotas.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';

const members = 70_000;

describe('the quotas of all users', () => {
  let database: TestDatabase;
  before(async () => {
    database = await openTestDatabase(['1'], 1000, 1000);
    const { db } = database;
    const [period] = await db.selectFrom('periods').select('id').execute();
    assert.ok(period);
    await inTransaction(db, (tx) => endPeriod(tx, period.id, 500));
    const numbers = sql`with recursive n(i) as (select 1 union all select i + 1 from n where i < ${members - 1})`;
    const user = sql`cast(700000 + i as text)`;
    await sql`insert into users (id, role, created_at) ${numbers} select ${user}, 'user', 1 from n`.execute(db);
    await sql`insert into memberships (user_id, project_id, status, reason, since)
      ${numbers} select ${user}, 1, 'active', '', 1 from n`.execute(db);
    for (const [resource, periodId] of [
      ['time', period.id],
      ['space', 0],
    ])
      await sql`insert into accounts
        (project_id, period_id, holder, resource, granted, held, posted, overrun, alerted)
        ${numbers} select 1, ${periodId}, ${user}, ${resource}, 7, 0, 0, 0, 0 from n`.execute(db);
    await sql`analyze`.execute(db);
  });
  after(() => database.close());

  test('can be read with 70,000 members', async () => {
    const quotas = await findQuotas(database.db, {}, 10);
    assert.equal(quotas.length, members);
    assert.equal(quotas.at(-1)?.time.cap.granted, 7);
    assert.equal((await readQuotaRows(database.db, {}, 10)).length, 4 * members);
  });

  test('have no time after the period has ended', async () => {
    const rows = await readQuotaRows(database.db, { userId: '1' }, 500);
    assert.deepEqual(
      rows.map(({ resource }) => resource),
      ['space', 'space'],
    );
  });
});
