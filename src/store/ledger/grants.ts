import { sql } from 'kysely';
import { availableBalance } from '../../domain/accounting/charge.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Tx } from '../database/handle.ts';
import type { EntryKind, Resource } from '../database/tables.ts';
import {
  type Account,
  applyMovement,
  applyMovementIfAvailable,
  availableAmount,
  type ChangeDetails,
  ensureAccount,
  insertEntries,
  lockAccount,
  poolHolder,
} from './accounts.ts';
import { getHold, getJobCharges, type JobId, reverseUsage } from './ledger.ts';
import { publishThreshold } from './thresholds.ts';

// Changes of accounts by administrators, each with its ledger entry. The grants of all caps never exceed that of their pool:
// whoever changes the grant of a cap locks its pool first.

/** Creates the pool of a project, or finds it, and returns its id. A pool of time belongs to a period. */
export async function ensurePool(tx: Tx, projectId: number, resource: Resource, periodId?: number) {
  return await ensureAccount(tx, { projectId, holder: poolHolder, resource, ...(periodId ? { periodId } : {}) });
}

export async function addGrant(
  tx: Tx,
  accountId: number,
  amount: number,
  kind: EntryKind,
  details: ChangeDetails,
): Promise<void> {
  const account = await applyMovement(tx, accountId, { granted: amount });
  if (account.granted > Number.MAX_SAFE_INTEGER) {
    throw new BursarError(
      'conflict',
      'The grant would exceed the largest amount that an account can hold. Grant less.',
    );
  }
  await insertGrantEntry(tx, account, amount, kind, details);
}

/** Reduces a grant. Returns false, without a change, if the amount is not available. */
export async function withdrawGrant(tx: Tx, id: number, amount: number, kind: EntryKind, details: ChangeDetails) {
  const account = await applyMovementIfAvailable(tx, id, { granted: -amount }, amount);
  if (account === undefined) return false;
  await insertGrantEntry(tx, account, -amount, kind, details);
  return true;
}

async function insertGrantEntry(
  tx: Tx,
  account: Account,
  granted: number,
  kind: EntryKind,
  details: ChangeDetails,
): Promise<void> {
  await insertEntries(tx, [{ movement: { granted }, account }], { ...details, job: null, kind });
  // An expired amount was not used, so it must not count as use.
  if (kind !== 'expire') await publishThreshold(tx, account, details.at);
}

/** Returns the part of a pool that is granted to no member. The pool is locked, so the amount is valid until the commit. */
export async function getUnallocatedAmount(tx: Tx, poolId: number): Promise<number> {
  const pool = await lockAccount(tx, poolId);
  const { allocated } = await tx
    .selectFrom('accounts')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<number>('granted'), eb.val(0)).as('allocated'))
    .where('projectId', '=', pool.projectId)
    .where('periodId', '=', pool.periodId)
    .where('resource', '=', pool.resource)
    .where('holder', '<>', poolHolder)
    .executeTakeFirstOrThrow();
  return pool.granted - Number(allocated);
}

/** Returns the charge and the refunds of a settled job in seconds. The account stays locked until the commit. */
export async function getChargedSeconds(tx: Tx, job: JobId) {
  await lockAccount(tx, (await getHold(tx, job)).timePool);
  const { resolution, refunds } = await getJobCharges(tx, job);
  const refunded = refunds.reduce((total, { seconds }) => total + seconds, 0);
  return { charged: resolution?.timeSeconds ?? 0, refunded };
}

/** Refunds time to pool and cap, and returns both. The caller has checked that the charge covers the refund. */
export async function refundTime(tx: Tx, job: JobId, seconds: number, details: ChangeDetails) {
  const hold = await getHold(tx, job);
  const accounts: Account[] = [];
  for (const accountId of [hold.timePool, hold.timeCap]) {
    accounts.push(await reverseUsage(tx, accountId, seconds, { ...details, job: job.id, kind: 'refund' }));
  }
  return accounts;
}

/**
 * Expires the available time of ended periods, and returns the number of changed accounts. Held time stays, and is settled
 * against the period of its hold; time that a settlement releases expires at a later call.
 */
export async function expireEndedPeriods(tx: Tx, now: number): Promise<number> {
  // A cross join keeps SQLite from reading all accounts: usually no period has ended.
  const { rows: ended } = await sql<{ id: number; projectId: number; endsAt: number }>`
    select distinct periods.id, periods.project_id, ends_at from periods cross join accounts
    where accounts.project_id = periods.project_id and period_id = periods.id and ends_at <= ${now}
      and resource = 'time' and ${availableAmount} > 0
    order by periods.id`.execute(tx);
  let changed = 0;
  for (const { id, projectId, endsAt } of ended) {
    const reason = `expired with its period at ${new Date(endsAt).toISOString()}`;
    changed += await expirePeriod(tx, projectId, id, { actor: 'bursar', reason, at: now });
  }
  return changed;
}

/**
 * The pool is locked before the accounts are read: a transfer between the reading and the expiry would leave a cap that the
 * pool no longer covers.
 */
async function expirePeriod(tx: Tx, projectId: number, periodId: number, details: ChangeDetails): Promise<number> {
  await lockAccount(tx, await ensurePool(tx, projectId, 'time', periodId));
  const accounts = await tx
    .selectFrom('accounts')
    .select(['id', 'granted', 'held', 'posted', 'overrun'])
    .where('projectId', '=', projectId)
    .where('periodId', '=', periodId)
    .where('resource', '=', 'time')
    .where(availableAmount, '>', 0)
    .orderBy('id')
    .execute();
  for (const account of accounts) await withdrawGrant(tx, account.id, availableBalance(account), 'expire', details);
  return accounts.length;
}
