import { available, cover } from '../domain/settlement.ts';
import {
  type Account,
  type AccountSet,
  type EntryNote,
  findAccounts,
  holdIfAvailable,
  insertEntry,
  moveFigures,
  openAccounts,
  poolHolder,
} from './accounts.ts';
import type { Db, Resource } from './tables.ts';

/**
 * Time is a flow, space is a level; both are held at submission and settled once at the end. Every change to an
 * account goes through here, together with the entry that explains it. All of it runs inside the caller's
 * transaction: half of it never happened.
 */
export interface Amounts {
  timeSeconds: number;
  spaceBytes: number;
}

type Note = Omit<EntryNote, 'kind'>;

export async function openPools(db: Db, projectId: number, periodId: number): Promise<void> {
  await openAccounts(db, projectId, periodId, poolHolder);
}

/** Opens a new member's caps and grants into them; the pool grows with what the member brings. */
export async function openCaps(
  db: Db,
  member: { projectId: number; periodId: number; userId: string },
  grant: Amounts,
  note: Note,
): Promise<void> {
  const { projectId, periodId, userId } = member;
  await openAccounts(db, projectId, periodId, userId);
  const accounts = await findAccounts(db, projectId, periodId, userId);
  if (accounts === undefined) throw new Error(`project ${projectId} has no pools`);
  for (const [account, granted] of pairs(accounts, grant)) {
    const after = await moveFigures(db, account.id, { granted });
    await insertEntry(db, account.id, { granted }, after, { ...note, kind: 'grant' });
  }
}

export type Reservation =
  | { held: true }
  | { held: false; resource: Resource; account: 'pool' | 'cap'; needed: number; available: number };

/**
 * Holds what a job may use at the most, pool first and then cap. When it answers `held: false` the caller must roll
 * back: holds of the accounts before the one that was too small stand in the transaction.
 */
export async function reserve(
  db: Db,
  job: { id: number; attempt: number },
  accounts: AccountSet,
  amounts: Amounts,
  note: Omit<Note, 'job'>,
): Promise<Reservation> {
  for (const [account, amount, resource, kind] of pairs(accounts, amounts)) {
    const after = await holdIfAvailable(db, account.id, amount);
    if (after === undefined) {
      const now = await moveFigures(db, account.id, {});
      return { held: false, resource, account: kind, needed: amount, available: Math.max(0, available(now)) };
    }
    await insertEntry(db, account.id, { held: amount }, after, { ...note, job: job.id, kind: 'reserve' });
  }
  await db
    .insertInto('holds')
    .values({
      job: job.id,
      attempt: job.attempt,
      time_pool: accounts.timePool.id,
      time_cap: accounts.timeCap.id,
      space_pool: accounts.spacePool.id,
      space_cap: accounts.spaceCap.id,
      time_seconds: amounts.timeSeconds,
      space_bytes: amounts.spaceBytes,
      created_at: note.at,
    })
    .execute();
  return { held: true };
}

/**
 * Lets the hold of a finished job go and records what it really used. The resolution is inserted first, and there
 * can be one only: a second settlement of the same hold changes nothing, and answers false.
 */
export async function settle(
  db: Db,
  job: { id: number; attempt: number },
  used: Amounts & { kind: 'settled' | 'voided'; rule: string },
  note: Omit<Note, 'job' | 'reason'>,
): Promise<boolean> {
  const hold = await db
    .selectFrom('holds')
    .selectAll()
    .where('job', '=', job.id)
    .where('attempt', '=', job.attempt)
    .executeTakeFirstOrThrow();
  const resolution = await db
    .insertInto('resolutions')
    .values({
      hold_id: hold.id,
      kind: used.kind,
      time_seconds: used.timeSeconds,
      space_bytes: used.spaceBytes,
      rule: used.rule,
      at: note.at,
    })
    .onConflict((conflict) => conflict.column('hold_id').doNothing())
    .returning('hold_id')
    .executeTakeFirst();
  if (resolution === undefined) return false;

  const sides = [
    [hold.time_pool, hold.time_seconds, used.timeSeconds],
    [hold.time_cap, hold.time_seconds, used.timeSeconds],
    [hold.space_pool, hold.space_bytes, used.spaceBytes],
    [hold.space_cap, hold.space_bytes, used.spaceBytes],
  ] as const;
  for (const [accountId, held, amount] of sides) {
    const released = await moveFigures(db, accountId, { held: -held });
    const use = cover(released, amount);
    const after = amount === 0 ? released : await moveFigures(db, accountId, use);
    await insertEntry(db, accountId, { held: -held, ...use }, after, {
      ...note,
      job: job.id,
      reason: used.rule,
      kind: amount === 0 ? 'release' : 'charge',
    });
  }
  return true;
}

type Side = [account: Account, amount: number, resource: Resource, kind: 'pool' | 'cap'];

/** Each account with its amount, always in the same order, so that no two transactions wait for each other. */
function pairs(accounts: AccountSet, amounts: Amounts): Side[] {
  return [
    [accounts.timePool, amounts.timeSeconds, 'time', 'pool'],
    [accounts.timeCap, amounts.timeSeconds, 'time', 'cap'],
    [accounts.spacePool, amounts.spaceBytes, 'space', 'pool'],
    [accounts.spaceCap, amounts.spaceBytes, 'space', 'cap'],
  ];
}
