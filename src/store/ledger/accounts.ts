import { sql } from 'kysely';
import { availableBalance, type Movement, zeroMovement } from '../../domain/accounting/charge.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, type Param, prepareQuery } from '../database/prepared.ts';
import type { EntryKind, Resource, Row } from '../database/tables.ts';

export type Account = Row<'accounts'>;

/** The accounts on which the jobs of a user in a project are held: the project's pools and the user's caps. */
export interface AccountSet {
  timePool: Account;
  timeCap: Account;
  spacePool: Account;
  spaceCap: Account;
}

/** The part of an entry that explains a movement. */
export interface EntryDetails {
  kind: EntryKind;
  job: number | null;
  actor: string;
  reason: string;
  at: number;
}

/** The actor, reason and time of a change, which may have several entries. */
export type ChangeDetails = Omit<EntryDetails, 'kind' | 'job'>;

export const poolHolder = '';
/** The period of space accounts. */
const noPeriod = 0;

/** Creates an empty account, or finds the existing one, and returns its id. A space account has no period. */
export async function ensureAccount(
  tx: Tx,
  account: { projectId: number; holder: string; resource: Resource; periodId?: number },
): Promise<number> {
  const { projectId, holder, resource, periodId = noPeriod } = account;
  const key = { projectId, periodId, holder, resource };
  await tx
    .insertInto('accounts')
    .values({ ...key, ...zeroMovement, alerted: 0 })
    .onConflict((conflict) => conflict.columns(['projectId', 'holder', 'resource', 'periodId']).doNothing())
    .execute();
  const { id } = await tx
    .selectFrom('accounts')
    .select('id')
    .where((eb) => eb.and(key))
    .executeTakeFirstOrThrow();
  return id;
}

/** Finds the accounts of a user in a period of a project. Returns undefined if the user is not a member. */
export async function findAccounts(
  db: Db,
  projectId: number,
  periodId: number,
  userId: string,
): Promise<AccountSet | undefined> {
  const accounts = await db
    .selectFrom('accounts')
    .selectAll()
    .where('projectId', '=', projectId)
    .where('holder', 'in', [poolHolder, userId])
    .where('periodId', 'in', [noPeriod, periodId])
    .execute();
  return toAccountSet(accounts);
}

export function toAccountSet(accounts: readonly Account[]): AccountSet | undefined {
  const pick = (resource: Resource, isPool: boolean) =>
    accounts.find((account) => account.resource === resource && (account.holder === poolHolder) === isPool);
  const timePool = pick('time', true);
  const timeCap = pick('time', false);
  const spacePool = pick('space', true);
  const spaceCap = pick('space', false);
  return timePool && timeCap && spacePool && spaceCap && { timePool, timeCap, spacePool, spaceCap };
}

/** Reads an account and locks it until the transaction ends. */
export async function lockAccount(tx: Tx, accountId: number): Promise<Account> {
  const [account] = await selectForUpdate(tx, { accountId });
  if (account === undefined) throw new Error(`there is no account ${accountId}`);
  return account;
}

const selectForUpdate = prepareQuery((db, param: Param<{ accountId: number }>) =>
  db.selectFrom('accounts').selectAll('accounts').where('id', '=', param('accountId')).forNoKeyUpdate(),
);

/** A change of a balance, and of the number of open holds. */
type AccountChange = Movement & Pick<Account, 'openHolds'>;
const noChange: AccountChange = { ...zeroMovement, openHolds: 0 };

/** Changes an account, and returns the changed account. It stays locked until the commit. */
export async function applyMovement(tx: Tx, accountId: number, change: Partial<AccountChange>): Promise<Account> {
  const [account] = await updateBalance(tx, { accountId, ...noChange, ...change });
  if (account === undefined) throw new Error(`there is no account ${accountId}`);
  return account;
}

const updateBalance = prepareQuery((db, param: Param<AccountChange & { accountId: number }>) =>
  buildBalanceUpdate(db, param).returningAll(),
);

/**
 * Does the same if the amount is available. Returns undefined, without a change, otherwise. One conditional
 * statement does both, so that two requests cannot both take the last second.
 */
export async function applyMovementIfAvailable(
  tx: Tx,
  accountId: number,
  movement: Partial<Movement>,
  amount: number,
): Promise<Account | undefined> {
  const values = { accountId, ...noChange, ...movement };
  return await buildBalanceUpdate(tx, (name) => values[name])
    .where(availableAmount, '>=', amount)
    .returningAll()
    .executeTakeFirst();
}

export interface Amounts {
  timeSeconds: number;
  spaceBytes: number;
}

/** Holds the amounts on each of the accounts that has them available, and returns only these accounts. */
export async function holdIfAvailable(tx: Tx, accounts: AccountSet, amounts: Amounts): Promise<readonly Account[]> {
  return await updateHeldIfAvailable(tx, { ...toAccountIds(accounts), ...amounts });
}

export function toAccountIds({ timePool, timeCap, spacePool, spaceCap }: AccountSet): Record<keyof AccountSet, number> {
  return { timePool: timePool.id, timeCap: timeCap.id, spacePool: spacePool.id, spaceCap: spaceCap.id };
}

const updateHeldIfAvailable = prepareQuery((db, param: Param<Record<keyof AccountSet, number> & Amounts>) => {
  const amount = sql<number>`case resource when 'time' then cast(${param('timeSeconds')} as bigint)
    else cast(${param('spaceBytes')} as bigint) end`;
  const ids = [param('timePool'), param('timeCap'), param('spacePool'), param('spaceCap')];
  return db
    .updateTable('accounts')
    .set((eb) => ({
      held: eb('held', '+', amount),
      openHolds: eb('openHolds', '+', 1),
      version: eb('version', '+', 1),
    }))
    .where('id', 'in', selectLockedInOrder(db, ids))
    .where(availableAmount, '>=', amount)
    .returningAll();
});

/** Locks time before space, and the pool before the cap. All transactions use this order, so that they do not deadlock. */
function selectLockedInOrder(db: Db, ids: readonly number[]) {
  return db
    .selectFrom('accounts as in_order')
    .select('in_order.id')
    .where('in_order.id', 'in', ids)
    .orderBy('in_order.resource', 'desc')
    .orderBy('in_order.holder')
    .forNoKeyUpdate();
}

/** `availableBalance` in SQL. */
export const availableAmount = sql<number>`granted - posted - held - overrun`;

function buildBalanceUpdate(db: Db, param: Param<AccountChange & { accountId: number }>) {
  return db
    .updateTable('accounts')
    .set((eb) => ({
      granted: eb('granted', '+', param('granted')),
      held: eb('held', '+', param('held')),
      posted: eb('posted', '+', param('posted')),
      overrun: eb('overrun', '+', param('overrun')),
      openHolds: eb('openHolds', '+', param('openHolds')),
      version: eb('version', '+', 1),
    }))
    .where('id', '=', param('accountId'));
}

/** A movement that was applied, and the account after it. */
export interface AppliedMovement {
  movement: Partial<Movement>;
  account: Account;
}

/** Inserts the ledger entries of movements. */
export async function insertEntries(tx: Tx, movements: readonly AppliedMovement[], details: EntryDetails) {
  await insertRows(tx, { entries: toEntryRows(movements, details) });
}

export function toEntryRows(movements: readonly AppliedMovement[], details: EntryDetails) {
  return movements.map(({ movement, account }) => ({
    accountId: account.id,
    ...zeroMovement,
    ...movement,
    availableAfter: availableBalance(account),
    ...details,
  }));
}
