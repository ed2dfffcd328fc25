import { type AccountFigures, available, type Movement, noMovement } from '../domain/settlement.ts';
import { prepared, type Value } from './prepared.ts';
import type { Db, EntryKind, Resource, Tables } from './tables.ts';

export interface Account extends AccountFigures {
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
export interface EntryNote {
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
  'id',
  'project_id as projectId',
  'holder',
  'resource',
  'granted',
  'held',
  'posted',
  'overrun',
  'alerted',
] as const;

/** Opens an empty account; the one that is there already stays as it is. A space account takes no period. */
export async function openAccount(
  db: Db,
  account: { projectId: number; holder: string; resource: Resource; periodId?: number },
): Promise<number> {
  const { projectId, holder, resource, periodId = noPeriod } = account;
  const key = { project_id: projectId, period_id: periodId, holder, resource };
  await db
    .insertInto('accounts')
    .values({ ...key, ...noMovement, alerted: 0 })
    .onConflict((conflict) => conflict.columns(['project_id', 'holder', 'resource', 'period_id']).doNothing())
    .execute();
  const { id } = await db
    .selectFrom('accounts')
    .select('id')
    .where('project_id', '=', projectId)
    .where('period_id', '=', periodId)
    .where('holder', '=', holder)
    .where('resource', '=', resource)
    .executeTakeFirstOrThrow();
  return id;
}

const accountsOf = prepared((db, value: Value<{ projectId: number; periodId: number; userId: string }>) =>
  db
    .selectFrom('accounts')
    .select(columns)
    .where('project_id', '=', value('projectId'))
    .where('holder', 'in', [poolHolder, value('userId')])
    .where('period_id', 'in', [noPeriod, value('periodId')]),
);

/** The accounts of a user in a period of a project; undefined for who is no member. */
export async function findAccounts(
  db: Db,
  projectId: number,
  periodId: number,
  userId: string,
): Promise<AccountSet | undefined> {
  const rows = await accountsOf(db, { projectId, periodId, userId });
  const pick = (holder: string, resource: Resource) =>
    rows.find((row) => row.holder === holder && row.resource === resource);
  const timePool = pick(poolHolder, 'time');
  const timeCap = pick(userId, 'time');
  const spacePool = pick(poolHolder, 'space');
  const spaceCap = pick(userId, 'space');
  return timePool && timeCap && spacePool && spaceCap && { timePool, timeCap, spacePool, spaceCap };
}

/** Changes an account's figures, and answers with the account as it is then. It stays locked until the commit. */
export async function moveFigures(db: Db, accountId: number, change: Partial<Movement>): Promise<Account> {
  const [account] = await move(db, { accountId, ...noMovement, ...change });
  if (account === undefined) throw new Error(`there is no account ${accountId}`);
  return account;
}

const move = prepared((db, value: Value<Movement & { accountId: number }>) => movement(db, value).returning(columns));

/**
 * The same, if so much is available; undefined and no change otherwise. One conditional statement, so that no two
 * requests can both have the last second.
 */
export async function moveIfAvailable(
  db: Db,
  accountId: number,
  change: Partial<Movement>,
  amount: number,
): Promise<Account | undefined> {
  const [account] = await moveWithin(db, { accountId, ...noMovement, ...change, amount });
  return account;
}

const moveWithin = prepared((db, value: Value<Movement & { accountId: number; amount: number }>) =>
  movement(db, value)
    .where((eb) => {
      const taken = eb(eb(eb.ref('posted'), '+', eb.ref('held')), '+', eb.ref('overrun'));
      return eb(eb(eb.ref('granted'), '-', eb.parens(taken)), '>=', value('amount'));
    })
    .returning(columns),
);

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
export interface Moved {
  movement: Partial<Movement>;
  after: Account;
}

/** Appends to the history of accounts. */
export async function insertEntries(db: Db, moved: readonly Moved[], note: EntryNote): Promise<void> {
  for (const { movement, after } of moved)
    await append(db, {
      account_id: after.id,
      ...noMovement,
      ...movement,
      available_after: available(after),
      ...note,
    });
}

type EntryColumns = Omit<Tables['entries'], 'id'>;

const append = prepared((db, value: Value<EntryColumns>) =>
  db.insertInto('entries').values({
    account_id: value('account_id'),
    kind: value('kind'),
    granted: value('granted'),
    held: value('held'),
    posted: value('posted'),
    overrun: value('overrun'),
    available_after: value('available_after'),
    job: value('job'),
    actor: value('actor'),
    reason: value('reason'),
    at: value('at'),
  }),
);

/** The same for one. */
export async function insertEntry(db: Db, movement: Partial<Movement>, after: Account, note: EntryNote): Promise<void> {
  await insertEntries(db, [{ movement, after }], note);
}
