import { availableBalance, splitUsage } from '../../domain/accounting/settlement.ts';
import type { Shortfall } from '../../domain/accounting/shortfall.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, rowBuilder } from '../database/inserts.ts';
import type { Resource } from '../database/tables.ts';
import {
  type Account,
  type AccountSet,
  type Amounts,
  type AppliedMovement,
  applyMovement,
  type EntryDetails,
  holdIfAvailable,
  insertEntry,
  lockAccount,
  toEntryRows,
} from './accounts.ts';
import { publishThreshold } from './thresholds.ts';

/**
 * What jobs do to accounts. Time is a flow, space is a level; both are held at submission and settled once at the end.
 * Every change comes with the entry that explains it. All of it runs inside the caller's transaction: half of it never
 * happened.
 */
type Note = Omit<EntryDetails, 'kind' | 'job'>;

/**
 * Holds what a job may use at the most. When it answers with a shortage the caller must roll back: what the other
 * accounts hold stands in the transaction.
 */
export async function reserve(
  tx: Tx,
  job: { id: number; attempt: number },
  accounts: AccountSet,
  amounts: Amounts,
  note: Note,
): Promise<Shortfall | null> {
  const sides = [
    [accounts.timePool, amounts.timeSeconds, 'pool'],
    [accounts.timeCap, amounts.timeSeconds, 'cap'],
    [accounts.spacePool, amounts.spaceBytes, 'pool'],
    [accounts.spaceCap, amounts.spaceBytes, 'cap'],
  ] as const;
  const changed = await holdIfAvailable(tx, accounts, amounts);
  const moved: AppliedMovement[] = [];
  for (const [{ id, resource }, held, account] of sides) {
    const after = changed.find((one) => one.id === id);
    if (after === undefined) return await getShortfall(tx, accounts, resource, held, account);
    moved.push({ movement: { held }, after });
  }
  const hold = {
    job: job.id,
    attempt: job.attempt,
    time_pool: accounts.timePool.id,
    time_cap: accounts.timeCap.id,
    space_pool: accounts.spacePool.id,
    space_cap: accounts.spaceCap.id,
    time_seconds: amounts.timeSeconds,
    space_bytes: amounts.spaceBytes,
    created_at: note.at,
  };
  const entries = toEntryRows(moved, { ...note, job: job.id, kind: 'reserve' });
  await insertRows(tx, entries, toHoldRows([hold]));
  return null;
}

const toHoldRows = rowBuilder('holds', [
  'job',
  'attempt',
  'time_pool',
  'time_cap',
  'space_pool',
  'space_cap',
  'time_seconds',
  'space_bytes',
  'created_at',
]);

/** What there is of the smaller of pool and cap: of the larger one the caller has no use. */
async function getShortfall(
  tx: Tx,
  { timePool, timeCap, spacePool, spaceCap }: AccountSet,
  resource: Resource,
  needed: number,
  tooSmall: 'pool' | 'cap',
): Promise<Shortfall> {
  const [pool, cap] = resource === 'time' ? [timePool, timeCap] : [spacePool, spaceCap];
  const inCap = availableBalance(await lockAccount(tx, cap.id));
  // When the cap is too small, the pool was not.
  const inPool = tooSmall === 'cap' ? Number.POSITIVE_INFINITY : availableBalance(await lockAccount(tx, pool.id));
  const account = inPool < inCap ? 'pool' : 'cap';
  return { resource, account, needed, available: Math.max(0, Math.min(inPool, inCap)) };
}

/**
 * Lets the hold of a finished job go and records what it really used. The resolution is inserted first, and there
 * can be one only: a second settlement of the same hold changes nothing, and answers false.
 */
export async function settle(
  tx: Tx,
  job: { id: number; attempt: number },
  used: Amounts & { kind: 'settled' | 'voided'; rule: string },
  note: Omit<Note, 'reason'>,
): Promise<boolean> {
  const hold = await getHold(tx, job);
  const resolution = await tx
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
    const released = await applyMovement(tx, accountId, { held: -held });
    const use = splitUsage(released, amount);
    const after = amount === 0 ? released : await applyMovement(tx, accountId, use);
    await insertEntry(tx, { held: -held, ...use }, after, {
      ...note,
      job: job.id,
      reason: used.rule,
      kind: amount === 0 ? 'release' : 'charge',
    });
    await publishThreshold(tx, after, note.at);
  }
  return true;
}

/** Gives back the space that the files of a finished job took. The caller makes sure that it happens once. */
export async function freeSpace(tx: Tx, job: { id: number; attempt: number }, note: Note): Promise<void> {
  const hold = await getHold(tx, job);
  const { space_bytes: used } = await tx
    .selectFrom('resolutions')
    .select('space_bytes')
    .where('hold_id', '=', hold.id)
    .executeTakeFirstOrThrow();
  if (used === 0) return;
  for (const accountId of [hold.space_pool, hold.space_cap])
    await reverseUsage(tx, accountId, used, { ...note, job: job.id, kind: 'free' });
}

/** Takes use off an account: what stands beyond its cover first, because that is what blocks new jobs. */
export async function reverseUsage(tx: Tx, accountId: number, amount: number, note: EntryDetails): Promise<Account> {
  const before = await lockAccount(tx, accountId);
  const overrun = -Math.min(before.overrun, amount);
  const movement = { overrun, posted: -(amount + overrun) };
  const after = await applyMovement(tx, accountId, movement);
  await insertEntry(tx, movement, after, note);
  await publishThreshold(tx, after, note.at);
  return after;
}

export async function getHold(db: Db, job: { id: number; attempt: number }) {
  return await db
    .selectFrom('holds')
    .selectAll()
    .where('job', '=', job.id)
    .where('attempt', '=', job.attempt)
    .executeTakeFirstOrThrow();
}
