import assert from 'node:assert/strict';
import type { Db } from '../../src/store/database/handle.ts';
import { type AccountSet, findAccounts } from '../../src/store/ledger/accounts.ts';
import { findCurrentPeriodId } from '../../src/store/ledger/periods.ts';

/** Finds the accounts of a user at the time 2, just after the test database was set up. */
export async function getAccounts(db: Db, project: { id: number }, user: string): Promise<AccountSet> {
  const accounts = await findAccounts(db, project.id, (await findCurrentPeriodId(db, project.id, 2)) ?? 0, user);
  assert.ok(accounts);
  return accounts;
}
