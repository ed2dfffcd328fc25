import { type AccountFigures, available, type Movement, noMovement } from '../domain/settlement.ts';
import type { Db, EntryKind, Resource } from './tables.ts';

export interface Account extends AccountFigures {
  id: number;
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

const figures = ['granted', 'held', 'posted', 'overrun'] as const;
export const poolHolder = '';

/** Opens empty accounts of one holder: a user's caps, or the pools of the project. */
export async function openAccounts(db: Db, projectId: number, periodId: number, holder: string): Promise<void> {
  const account = (resource: Resource) => ({
    project_id: projectId,
    period_id: resource === 'time' ? periodId : 0,
    holder,
    resource,
    ...noMovement,
  });
  await db
    .insertInto('accounts')
    .values([account('time'), account('space')])
    .execute();
}

export async function findAccounts(
  db: Db,
  projectId: number,
  periodId: number,
  userId: string,
): Promise<AccountSet | undefined> {
  const rows = await db
    .selectFrom('accounts')
    .select(['id', 'holder', 'resource', ...figures])
    .where('project_id', '=', projectId)
    .where('holder', 'in', [poolHolder, userId])
    .where('period_id', 'in', [0, periodId])
    .execute();
  const pick = (holder: string, resource: Resource) =>
    rows.find((row) => row.holder === holder && row.resource === resource);
  const timePool = pick(poolHolder, 'time');
  const timeCap = pick(userId, 'time');
  const spacePool = pick(poolHolder, 'space');
  const spaceCap = pick(userId, 'space');
  return timePool && timeCap && spacePool && spaceCap && { timePool, timeCap, spacePool, spaceCap };
}

/** Changes an account's figures, and answers with what they are then. The row stays locked until the commit. */
export async function moveFigures(db: Db, accountId: number, change: Partial<Movement>): Promise<AccountFigures> {
  const by = { ...noMovement, ...change };
  return await db
    .updateTable('accounts')
    .set((eb) => ({
      granted: eb('granted', '+', by.granted),
      held: eb('held', '+', by.held),
      posted: eb('posted', '+', by.posted),
      overrun: eb('overrun', '+', by.overrun),
    }))
    .where('id', '=', accountId)
    .returning(figures)
    .executeTakeFirstOrThrow();
}

/**
 * Holds an amount, if so much is available; undefined and no change otherwise. One conditional statement, so
 * that no two submissions can both have the last second.
 */
export async function holdIfAvailable(db: Db, accountId: number, amount: number): Promise<AccountFigures | undefined> {
  return await db
    .updateTable('accounts')
    .set((eb) => ({ held: eb('held', '+', amount) }))
    .where('id', '=', accountId)
    .where((eb) => {
      const taken = eb(eb(eb.ref('posted'), '+', eb.ref('held')), '+', eb.ref('overrun'));
      return eb(eb(eb.ref('granted'), '-', eb.parens(taken)), '>=', amount);
    })
    .returning(figures)
    .executeTakeFirst();
}

/** Appends to an account's history. The movement is already in its figures, which are given as they are now. */
export async function insertEntry(
  db: Db,
  accountId: number,
  movement: Partial<Movement>,
  after: AccountFigures,
  note: EntryNote,
): Promise<void> {
  await db
    .insertInto('entries')
    .values({ account_id: accountId, ...noMovement, ...movement, available_after: available(after), ...note })
    .execute();
}
