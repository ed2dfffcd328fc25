import { type ExpressionBuilder, sql } from 'kysely';
import {
  type AccountBalance,
  availableBalance,
  type Movement,
  zeroMovement,
} from '../../domain/accounting/settlement.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, rowBuilder, type TableRows } from '../database/inserts.ts';
import { prepared, type Value } from '../database/prepared.ts';
import type { EntryKind, Resource, Tables } from '../database/tables.ts';

export interface Account extends AccountBalance {
  id: number;
  projectId: number;
  /** Whose cap it is, or `poolHolder`. */
  holder: string;
  resource: Resource;
  /** The highest threshold of its use that has been announced. */
  alerted: number;
}

/** The accounts that a job of a user in a project is held against: the project's pool and the user's cap. */
export interface AccountSet {
  timePool: Account;
  timeCap: Account;
  spacePool: Account;
  spaceCap: Account;
}

/** Who moved something, and why. */
export interface EntryDetails {
  kind: EntryKind;
  job: number | null;
  actor: string;
  reason: string;
  at: number;
}

export const poolHolder = '';
/** Space is a level: its accounts outlive the periods. */
const noPeriod = 0;

const columns = [
  'accounts.id',
  'accounts.project_id as projectId',
  'accounts.holder',
  'accounts.resource',
  'accounts.granted',
  'accounts.held',
  'accounts.posted',
  'accounts.overrun',
  'accounts.alerted',
] as const;

/** Opens an empty account; the one that is there already stays as it is. A space account takes no period. */
export async function ensureAccount(
  tx: Tx,
  account: { projectId: number; holder: string; resource: Resource; periodId?: number },
): Promise<number> {
  const { projectId, holder, resource, periodId = noPeriod } = account;
  const key = { project_id: projectId, period_id: periodId, holder, resource };
  await tx
    .insertInto('accounts')
    .values({ ...key, ...zeroMovement, alerted: 0 })
    .onConflict((conflict) => conflict.columns(['project_id', 'holder', 'resource', 'period_id']).doNothing())
    .execute();
  const { id } = await tx
    .selectFrom('accounts')
    .select('id')
    .where('project_id', '=', projectId)
    .where('period_id', '=', periodId)
    .where('holder', '=', holder)
    .where('resource', '=', resource)
    .executeTakeFirstOrThrow();
  return id;
}

const accountsIn = prepared((db, value: Value<{ projectId: number; periodId: number; userId: string }>) =>
  selectAccounts(db, value('projectId'), value('userId')).where('period_id', 'in', [noPeriod, value('periodId')]),
);

/** The accounts of a user in a period of a project; undefined for who is no member. */
export async function findAccounts(
  db: Db,
  projectId: number,
  periodId: number,
  userId: string,
): Promise<AccountSet | undefined> {
  return toAccountSet(await accountsIn(db, { projectId, periodId, userId }));
}

const accountsAt = prepared((db, value: Value<{ projectId: number; userId: string; now: number }>) =>
  selectAccounts(db, value('projectId'), value('userId'))
    .leftJoin('periods', 'periods.id', 'accounts.period_id')
    .where((eb) => eb.or([eb('periods.starts_at', 'is', null), eb('periods.starts_at', '<=', value('now'))]))
    .where((eb) => eb.or([eb('periods.ends_at', 'is', null), eb('periods.ends_at', '>', value('now'))])),
);

/** The same for the period that it is now; undefined also when there is none. */
export async function findCurrentAccounts(
  db: Db,
  projectId: number,
  userId: string,
  now: number,
): Promise<AccountSet | undefined> {
  return toAccountSet(await accountsAt(db, { projectId, userId, now }));
}

function selectAccounts(db: Db, projectId: number, userId: string) {
  return db
    .selectFrom('accounts')
    .select(columns)
    .where('accounts.project_id', '=', projectId)
    .where('accounts.holder', 'in', [poolHolder, userId]);
}

function toAccountSet(accounts: readonly Account[]): AccountSet | undefined {
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

const selectForUpdate = prepared((db, value: Value<{ accountId: number }>) => {
  const account = db.selectFrom('accounts').select(columns).where('id', '=', value('accountId'));
  return db.backend.dialect.locksRows ? account.forNoKeyUpdate() : account;
});

/** Changes an account's figures, and answers with the account as it is then. It stays locked until the commit. */
export async function applyMovement(tx: Tx, accountId: number, change: Partial<Movement>): Promise<Account> {
  const [account] = await move(tx, { accountId, ...zeroMovement, ...change });
  if (account === undefined) throw new Error(`there is no account ${accountId}`);
  return account;
}

const move = prepared((db, value: Value<Movement & { accountId: number }>) => movement(db, value).returning(columns));

/**
 * The same, if so much is available; undefined and no change otherwise. One conditional statement, so that no two
 * requests can both have the last second.
 */
export async function applyMovementIfAvailable(
  tx: Tx,
  accountId: number,
  change: Partial<Movement>,
  amount: number,
): Promise<Account | undefined> {
  const [account] = await moveWithin(tx, { accountId, ...zeroMovement, ...change, amount });
  return account;
}

const moveWithin = prepared((db, value: Value<Movement & { accountId: number; amount: number }>) =>
  movement(db, value)
    .where((eb) => eb(availableIn(eb), '>=', value('amount')))
    .returning(columns),
);

/** What a job may use of time and space at the most. */
export interface Amounts {
  timeSeconds: number;
  spaceBytes: number;
}

/** Holds the amounts on those of a job's accounts that have so much, and answers with these as they are then. */
export async function holdIfAvailable(tx: Tx, accounts: AccountSet, amounts: Amounts): Promise<readonly Account[]> {
  const { timePool, timeCap, spacePool, spaceCap } = accounts;
  return await hold(tx, {
    timePool: timePool.id,
    timeCap: timeCap.id,
    spacePool: spacePool.id,
    spaceCap: spaceCap.id,
    ...amounts,
  });
}

const hold = prepared((db, value: Value<Record<keyof AccountSet, number> & Amounts>) => {
  const amount = sql<number>`case resource when 'time' then cast(${value('timeSeconds')} as bigint)
    else cast(${value('spaceBytes')} as bigint) end`;
  return db
    .updateTable('accounts')
    .set((eb) => ({ held: eb('held', '+', amount), version: eb('version', '+', 1) }))
    .where('id', 'in', lockedInOrder(db, [value('timePool'), value('timeCap'), value('spacePool'), value('spaceCap')]))
    .where((eb) => eb(availableIn(eb), '>=', amount))
    .returning(columns);
});

/** Time before space, and the pool before the cap: always in this order, so that no two transactions wait for each other. */
function lockedInOrder(db: Db, ids: readonly number[]) {
  const accounts = db
    .selectFrom('accounts as in_order')
    .select('in_order.id')
    .where('in_order.id', 'in', ids)
    .orderBy('in_order.resource', 'desc')
    .orderBy('in_order.holder');
  return db.backend.dialect.locksRows ? accounts.forNoKeyUpdate() : accounts;
}

function availableIn(eb: ExpressionBuilder<Tables, 'accounts'>) {
  const taken = eb(eb(eb.ref('posted'), '+', eb.ref('held')), '+', eb.ref('overrun'));
  return eb(eb.ref('granted'), '-', eb.parens(taken));
}

function movement(db: Db, by: Value<Movement & { accountId: number }>) {
  return db
    .updateTable('accounts')
    .set((eb) => ({
      granted: eb('granted', '+', by('granted')),
      held: eb('held', '+', by('held')),
      posted: eb('posted', '+', by('posted')),
      overrun: eb('overrun', '+', by('overrun')),
      version: eb('version', '+', 1),
    }))
    .where('id', '=', by('accountId'));
}

/** A movement that is in an account's figures already, and the account as it is after it. */
export interface AppliedMovement {
  movement: Partial<Movement>;
  after: Account;
}

/** What is appended to the history of accounts. */
export function toEntryRows(moved: readonly AppliedMovement[], note: EntryDetails): TableRows {
  const rows = moved.map(({ movement, after }) => ({
    account_id: after.id,
    ...zeroMovement,
    ...movement,
    available_after: availableBalance(after),
    ...note,
  }));
  return buildEntryRows(rows);
}

const buildEntryRows = rowBuilder('entries', [
  'account_id',
  'kind',
  'granted',
  'held',
  'posted',
  'overrun',
  'available_after',
  'job',
  'actor',
  'reason',
  'at',
]);

/** Appends one to the history of its account. */
export async function insertEntry(
  tx: Tx,
  movement: Partial<Movement>,
  after: Account,
  note: EntryDetails,
): Promise<void> {
  await insertRows(tx, toEntryRows([{ movement, after }], note));
}
