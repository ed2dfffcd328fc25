import assert from 'node:assert/strict';
import { afterEach, beforeEach, test } from 'node:test';
import { sql } from 'kysely';
import { changeGrant } from '../../../src/services/accounting/grants.ts';
import { openGrantPeriod } from '../../../src/services/accounting/periods.ts';
import type { GrantChange } from '../../../src/services/accounting/quota-events.ts';
import { inTransaction } from '../../../src/store/database/transaction.ts';
import { findProject, type ProjectRecord } from '../../../src/store/identity/projects.ts';
import { expireEndedPeriods } from '../../../src/store/ledger/grants.ts';
import { verifyLedger } from '../../../src/store/ledger/verify-ledger.ts';
import { openTestDatabase, type TestDatabase } from '../../support/test-database.ts';
import { until } from '../../support/until.ts';

// A period ends, or the next one begins, while a change of its grants has not been committed yet.

const change = { resource: 'time', amount: 100, reason: 'test' } as const;
const changes: GrantChange[] = [
  { ...change, kind: 'transfer', from: '1', to: '2' },
  { ...change, kind: 'withdraw', user: '1', source: 'pool' },
  { ...change, kind: 'withdraw', user: '1', source: 'new' },
  { ...change, kind: 'top_up', user: '1', source: 'pool' },
  { ...change, kind: 'top_up', user: '1', source: 'new' },
];

let database: TestDatabase;
let project: ProjectRecord;

beforeEach(async () => {
  database = await openTestDatabase(['1', '2'], 1000, 500);
  const found = await findProject(database.db, 'sys', 'proj');
  assert.ok(found);
  project = found;
});
afterEach(() => database.close());

/** Waits until a transaction waits for a lock. SQLite has one transaction at a time, so there is nothing to wait for. */
async function waitForLockedTransaction(): Promise<void> {
  if (database.db.backend.dialect.name !== 'postgres') return;
  await until('a transaction waits for a lock', async () => {
    const { rows } = await sql`select pid from pg_stat_activity
      where datname = current_database() and wait_event_type = 'Lock'`.execute(database.db);
    return rows.length > 0 ? true : undefined;
  });
}

for (const grantChange of changes) {
  const name = 'source' in grantChange ? `${grantChange.kind} (source ${grantChange.source})` : grantChange.kind;
  test(`the pool covers its caps after an expiry during a ${name}`, async () => {
    const { db } = database;
    const period = { startsAt: 10, endsAt: 100, memberSeconds: 500, reserveSeconds: 200, reason: 'test' };
    await inTransaction(db, (tx) => openGrantPeriod(tx, project, period, 'admin', 10));
    const { expiry } = await inTransaction(db, async (tx) => {
      await changeGrant(tx, project, grantChange, 'admin', 99);
      const started = inTransaction(db, (other) => expireEndedPeriods(other, 100));
      await waitForLockedTransaction();
      // Inside an object, because a promise would be awaited before the commit.
      return { expiry: started };
    });
    await expiry;
    assert.deepEqual((await verifyLedger(db)).problems, []);
    const granted = await db.selectFrom('accounts').select('granted').where('resource', '=', 'time').execute();
    assert.deepEqual(new Set(granted.map((account) => account.granted)), new Set([0]));
  });
}

test('a transfer stays in one period if the next one begins meanwhile', async () => {
  const { db } = database;
  const reserve = { ...change, kind: 'top_up', user: null, source: 'new' } as const;
  const { transferred, opened } = await inTransaction(db, async (tx) => {
    await changeGrant(tx, project, reserve, 'admin', 10);
    const transfer = { ...change, kind: 'transfer', from: '1', to: '2' } as const;
    const transferring = inTransaction(db, (other) => changeGrant(other, project, transfer, 'admin', 10));
    await waitForLockedTransaction();
    const period = { startsAt: 10, endsAt: 100, memberSeconds: 500, reserveSeconds: 0, reason: 'test' };
    const opening = inTransaction(db, (other) => openGrantPeriod(other, project, period, 'admin', 10));
    if (db.backend.dialect.name === 'postgres') await opening;
    return { transferred: transferring, opened: opening };
  });
  await Promise.all([transferred, opened]);
  assert.deepEqual((await verifyLedger(db)).problems, []);
});
