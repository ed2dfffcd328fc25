import { availableBalance } from '../../domain/accounting/settlement.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Tx } from '../database/handle.ts';
import type { EntryKind } from '../database/tables.ts';
import {
  type Account,
  applyMovement,
  applyMovementIfAvailable,
  type EntryDetails,
  ensureAccount,
  insertEntry,
  lockAccount,
  poolHolder,
} from './accounts.ts';
import { getHold, reverseUsage } from './ledger.ts';
import { publishThreshold } from './thresholds.ts';

/**
 * What administrators do to accounts, each change with its entry, inside the caller's transaction. The caps of a
 * project never promise more than its pool: `reserveOf` is what of the pool is promised to nobody.
 */
type Note = Omit<EntryDetails, 'kind' | 'job'>;

/** Opens a pool: of space for good, of time for a period. */
export async function ensurePool(tx: Tx, projectId: number, resource: 'time' | 'space', periodId?: number) {
  return await ensureAccount(tx, { projectId, holder: poolHolder, resource, ...(periodId ? { periodId } : {}) });
}

/** Adds to what is granted. */
export async function addGrant(tx: Tx, accountId: number, amount: number, kind: EntryKind, note: Note): Promise<void> {
  const after = await applyMovement(tx, accountId, { granted: amount });
  if (after.granted > Number.MAX_SAFE_INTEGER) {
    throw new BursarError('conflict', 'That is more than can be counted to the second and byte. Grant less.');
  }
  await record(tx, after, amount, kind, note);
}

/** Takes from what is granted, if so much is available; false and no change otherwise. */
export async function withdrawGrant(tx: Tx, accountId: number, amount: number, kind: EntryKind, note: Note) {
  const after = await applyMovementIfAvailable(tx, accountId, { granted: -amount }, amount);
  if (after === undefined) return false;
  await record(tx, after, -amount, kind, note);
  return true;
}

async function record(tx: Tx, after: Account, granted: number, kind: EntryKind, note: Note): Promise<void> {
  await insertEntry(tx, { granted }, after, { ...note, job: null, kind });
  // What expires was not used: that nothing is left of it is no news about its use.
  if (kind !== 'expire') await publishThreshold(tx, after, note.at);
}

/** What of a pool is promised to no member. It stays so until the commit: nobody else can promise of it. */
export async function getUnallocatedAmount(tx: Tx, poolId: number): Promise<number> {
  await lockAccount(tx, poolId);
  const pool = await tx.selectFrom('accounts').selectAll().where('id', '=', poolId).executeTakeFirstOrThrow();
  const { promised } = await tx
    .selectFrom('accounts')
    .select((eb) => eb.fn.coalesce(eb.fn.sum<number>('granted'), eb.val(0)).as('promised'))
    .where('project_id', '=', pool.project_id)
    .where('period_id', '=', pool.period_id)
    .where('resource', '=', pool.resource)
    .where('holder', '<>', poolHolder)
    .executeTakeFirstOrThrow();
  return pool.granted - Number(promised);
}

/** What a settled job was charged and what of it has been given back, in seconds. It stays so until the commit. */
export async function getChargedSeconds(tx: Tx, job: { id: number; attempt: number }) {
  const hold = await getHold(tx, job);
  await lockAccount(tx, hold.time_pool);
  const rows = await tx
    .selectFrom('entries')
    .select(['kind', 'posted', 'overrun'])
    .where('job', '=', job.id)
    .where('account_id', '=', hold.time_cap)
    .where('kind', 'in', ['charge', 'refund'])
    .execute();
  const sum = (kind: EntryKind) =>
    rows.filter((row) => row.kind === kind).reduce((total, row) => total + row.posted + row.overrun, 0);
  return { charged: sum('charge'), refunded: -sum('refund') };
}

/** Gives charged time back, on both sides, and answers with these accounts. The caller has checked that it is not more than was charged. */
export async function refundTime(tx: Tx, job: { id: number; attempt: number }, seconds: number, note: Note) {
  const hold = await getHold(tx, job);
  const accounts: Account[] = [];
  for (const accountId of [hold.time_pool, hold.time_cap]) {
    accounts.push(await reverseUsage(tx, accountId, seconds, { ...note, job: job.id, kind: 'refund' }));
  }
  return accounts;
}

/**
 * Lets what is free in periods that have ended expire. What is held stays, and settles against the period that held
 * it; what that sets free expires in a later round. Answers how many accounts were touched.
 */
export async function expireEndedPeriods(tx: Tx, now: number): Promise<number> {
  const rows = await tx
    .selectFrom('accounts')
    .innerJoin('periods', 'periods.id', 'accounts.period_id')
    .select(['accounts.id', 'granted', 'held', 'posted', 'overrun', 'periods.ends_at as endedAt'])
    .where('periods.ends_at', '<=', now)
    .where('accounts.resource', '=', 'time')
    .whereRef('granted', '>', (eb) => eb(eb(eb.ref('posted'), '+', eb.ref('held')), '+', eb.ref('overrun')))
    // A pool is opened before the caps in it, and is moved before them everywhere.
    .orderBy('accounts.id')
    .execute();
  for (const row of rows) {
    const reason = `expired with its period at ${new Date(row.endedAt ?? now).toISOString()}`;
    await withdrawGrant(tx, row.id, availableBalance(row), 'expire', { actor: 'bursar', reason, at: now });
  }
  return rows.length;
}
