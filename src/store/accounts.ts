import { type AccountFigures, available, type Movement, noMovement } from '../domain/settlement.ts';
import type { Db, EntryKind, Resource } from './tables.ts';

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

/** The accounts of a user in a period of a project; undefined for who is no member. */
export async function findAccounts(
  db: Db,
  projectId: number,
  periodId: number,
  userId: string,
): Promise<AccountSet | undefined> {
  const rows = await db
    .selectFrom('accounts')
    .select(columns)
    .where('project_id', '=', projectId)
    .where('holder', 'in', [poolHolder, userId])
    .where('period_id', 'in', [noPeriod, periodId])
    .execute();
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
  return await movement(db, accountId, change).returning(columns).executeTakeFirstOrThrow();
}

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
  return await movement(db, accountId, change)
    .where((eb) => {
      const taken = eb(eb(eb.ref('posted'), '+', eb.ref('held')), '+', eb.ref('overrun'));
      return eb(eb(eb.ref('granted'), '-', eb.parens(taken)), '>=', amount);
    })
    .returning(columns)
    .executeTakeFirst();
}

function movement(db: Db, accountId: number, change: Partial<Movement>) {
  const by = { ...noMovement, ...change };
  return db
    .updateTable('accounts')
    .set((eb) => ({
      granted: eb('granted', '+', by.granted),
      held: eb('held', '+', by.held),
      posted: eb('posted', '+', by.posted),
      overrun: eb('overrun', '+', by.overrun),
      version: eb('version', '+', 1),
    }))
    .where('id', '=', accountId);
}

/** A movement that is in an account's figures already, and the account as it is after it. */
export interface Moved {
  movement: Partial<Movement>;
  after: Account;
}

/** Appends to the history of accounts. */
export async function insertEntries(db: Db, moved: readonly Moved[], note: EntryNote): Promise<void> {
  const rows = moved.map(({ movement, after }) => ({
    account_id: after.id,
    ...noMovement,
    ...movement,
    available_after: available(after),
    ...note,
  }));
  await db.insertInto('entries').values(rows).execute();
}

/** The same for one. */
export async function insertEntry(db: Db, movement: Partial<Movement>, after: Account, note: EntryNote): Promise<void> {
  await insertEntries(db, [{ movement, after }], note);
}
