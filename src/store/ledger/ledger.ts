import { availableBalance, splitUsage } from '../../domain/accounting/charge.ts';
import type { Shortfall } from '../../domain/accounting/shortfall.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows } from '../database/prepared.ts';
import type { Resource } from '../database/tables.ts';
import type { JobRecord } from '../jobs/jobs.ts';
import {
  type Account,
  type AccountSet,
  type Amounts,
  type AppliedMovement,
  applyMovement,
  type ChangeDetails,
  type EntryDetails,
  holdIfAvailable,
  insertEntries,
  lockAccount,
  toAccountIds,
  toEntryRows,
} from './accounts.ts';
import { addMonthlyUsage } from './monthly-usage.ts';
import { publishThreshold } from './thresholds.ts';

// Changes of accounts by jobs, each with its ledger entry. Time and space are held at submission and settled once at the
// end; used space is freed when the files are deleted.

/** A job, by its record id. */
export type JobId = Pick<JobRecord, 'id'>;

export interface PlacedHold {
  /** If there is one, the caller must roll back: some of the accounts may hold the amounts already. */
  shortfall: Shortfall | null;
  /** The number of unfinished jobs in the project, this one included. */
  projectJobs: number;
}

/** Holds the maximum that a job may use. */
export async function placeHold(
  tx: Tx,
  job: JobId,
  accounts: AccountSet,
  amounts: Amounts,
  details: ChangeDetails,
): Promise<PlacedHold> {
  const requests = [
    [accounts.timePool, amounts.timeSeconds, 'pool'],
    [accounts.timeCap, amounts.timeSeconds, 'cap'],
    [accounts.spacePool, amounts.spaceBytes, 'pool'],
    [accounts.spaceCap, amounts.spaceBytes, 'cap'],
  ] as const;
  const changed = await holdIfAvailable(tx, accounts, amounts);
  const movements: AppliedMovement[] = [];
  for (const [{ id, resource }, held, poolOrCap] of requests) {
    const account = changed.find((candidate) => candidate.id === id);
    if (account === undefined) {
      const shortfall = await getShortfall(tx, accounts, resource, held, poolOrCap);
      return { shortfall, projectJobs: accounts.spacePool.openHolds + 1 };
    }
    movements.push({ movement: { held }, account });
  }
  const spacePool = changed.find(({ id }) => id === accounts.spacePool.id);
  const hold = {
    job: job.id,
    ...toAccountIds(accounts),
    timeSeconds: amounts.timeSeconds,
    spaceBytes: amounts.spaceBytes,
    createdAt: details.at,
  };
  const entries = toEntryRows(movements, { ...details, job: job.id, kind: 'reserve' });
  await insertRows(tx, { entries, holds: [hold] });
  return { shortfall: null, projectJobs: spacePool?.openHolds ?? 0 };
}

/** Reports what is available in the smaller of pool and cap, which is what limits the job. */
async function getShortfall(
  tx: Tx,
  { timePool, timeCap, spacePool, spaceCap }: AccountSet,
  resource: Resource,
  needed: number,
  exceeded: 'pool' | 'cap',
): Promise<Shortfall> {
  const [pool, cap] = resource === 'time' ? [timePool, timeCap] : [spacePool, spaceCap];
  const inCap = availableBalance(await lockAccount(tx, cap.id));
  // Pools are checked first: if the cap is exceeded, the pool is not.
  const inPool = exceeded === 'cap' ? Number.POSITIVE_INFINITY : availableBalance(await lockAccount(tx, pool.id));
  const account = inPool < inCap ? 'pool' : 'cap';
  return { resource, account, needed, available: Math.max(0, Math.min(inPool, inCap)) };
}

/**
 * Releases the hold of a finished job and charges its actual use. The resolution is inserted first, and a hold can have
 * only one: a second settlement changes nothing and returns false.
 */
export async function settle(
  tx: Tx,
  job: JobId,
  used: Amounts & { kind: 'settled' | 'voided'; rule: string },
  details: Omit<ChangeDetails, 'reason'>,
): Promise<boolean> {
  const hold = await getHold(tx, job);
  const resolution = await tx
    .insertInto('resolutions')
    .values({
      holdId: hold.id,
      kind: used.kind,
      timeSeconds: used.timeSeconds,
      spaceBytes: used.spaceBytes,
      rule: used.rule,
      at: details.at,
    })
    .onConflict((conflict) => conflict.column('holdId').doNothing())
    .returning('holdId')
    .executeTakeFirst();
  if (resolution === undefined) return false;

  const settlements = [
    [hold.timePool, hold.timeSeconds, used.timeSeconds],
    [hold.timeCap, hold.timeSeconds, used.timeSeconds],
    [hold.spacePool, hold.spaceBytes, used.spaceBytes],
    [hold.spaceCap, hold.spaceBytes, used.spaceBytes],
  ] as const;
  for (const [accountId, held, amount] of settlements) {
    const released = await applyMovement(tx, accountId, { held: -held, openHolds: -1 });
    const usage = splitUsage(released, amount);
    const account = amount === 0 ? released : await applyMovement(tx, accountId, usage);
    const kind = amount === 0 ? 'release' : 'charge';
    const entry = { ...details, job: job.id, reason: used.rule, kind } as const;
    await insertEntries(tx, [{ movement: { held: -held, ...usage }, account }], entry);
    await addMonthlyUsage(tx, account, usage, entry);
    await publishThreshold(tx, account, details.at);
  }
  return true;
}

/** Frees the space of the deleted files of a finished job. The caller makes sure that it happens once. */
export async function freeSpace(tx: Tx, job: JobId, details: ChangeDetails): Promise<void> {
  const hold = await getHold(tx, job);
  const { spaceBytes: used } = await tx
    .selectFrom('resolutions')
    .select('spaceBytes')
    .where('holdId', '=', hold.id)
    .executeTakeFirstOrThrow();
  if (used === 0) return;
  for (const accountId of [hold.spacePool, hold.spaceCap])
    await reverseUsage(tx, accountId, used, { ...details, job: job.id, kind: 'free' });
}

/** Reduces the use of an account: its overrun first, because that blocks new jobs. */
export async function reverseUsage(tx: Tx, accountId: number, amount: number, details: EntryDetails): Promise<Account> {
  const before = await lockAccount(tx, accountId);
  const overrun = -Math.min(before.overrun, amount);
  const movement = { overrun, posted: -(amount + overrun) };
  const account = await applyMovement(tx, accountId, movement);
  await insertEntries(tx, [{ movement, account }], details);
  await addMonthlyUsage(tx, account, movement, details);
  await publishThreshold(tx, account, details.at);
  return account;
}

export async function getHold(db: Db, job: JobId) {
  return await db.selectFrom('holds').selectAll().where('job', '=', job.id).executeTakeFirstOrThrow();
}

/** The hold, the charge and the refunds of a job in seconds. */
export type JobCharges = Awaited<ReturnType<typeof getJobCharges>>;

export async function getJobCharges(db: Db, job: JobId) {
  const hold = await getHold(db, job);
  const resolution = await db
    .selectFrom('resolutions')
    .select(['timeSeconds', 'spaceBytes', 'rule'])
    .where('holdId', '=', hold.id)
    .executeTakeFirst();
  const refunds = await db
    .selectFrom('entries')
    .select(['at', 'posted', 'overrun', 'reason'])
    .where('job', '=', job.id)
    .where('accountId', '=', hold.timeCap)
    .where('kind', '=', 'refund')
    .orderBy('id')
    .execute();
  return {
    heldSeconds: hold.timeSeconds,
    /** Null before the job has ended. */
    resolution: resolution ?? null,
    refunds: refunds.map(({ at, posted, overrun, reason }) => ({ at, reason, seconds: -(posted + overrun) })),
  };
}
