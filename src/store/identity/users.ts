import { sql } from 'kysely';
import type { SiteRole } from '../../domain/identity/policy.ts';
import { assignedUserIds, nextAssignedUserId } from '../../domain/identity/user-id.ts';
import type { Db, Tx } from '../database/handle.ts';

/** Creates the user if it does not exist. An existing user can get another role, but never loses one here. */
export async function upsertUser(tx: Tx, id: string, role: SiteRole, now: number): Promise<void> {
  await tx
    .insertInto('users')
    .values({ id, role, createdAt: now })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
  if (role !== 'user') await tx.updateTable('users').set({ role }).where('id', '=', id).execute();
}

export async function userExists(db: Db, id: string): Promise<boolean> {
  return (await db.selectFrom('users').select('id').where('id', '=', id).executeTakeFirst()) !== undefined;
}

export type UserRecord = Awaited<ReturnType<typeof listUsers>>[number];

export async function findUser(db: Db, id: string) {
  return await selectUsers(db).where('id', '=', id).executeTakeFirst();
}

export async function listUsers(db: Db) {
  return await selectUsers(db).orderBy('id').execute();
}

const selectUsers = (db: Db) =>
  db.selectFrom('users').select(['id', 'role', 'name', 'mail', 'createdAt', 'disabledAt']);

export async function updateUser(tx: Tx, id: string, change: Partial<Omit<UserRecord, 'id'>>): Promise<void> {
  await tx.updateTable('users').set(change).where('id', '=', id).execute();
}

export async function listUserIds(db: Db): Promise<string[]> {
  return (await db.selectFrom('users').select('id').orderBy('id').execute()).map((user) => user.id);
}

export async function countUnfinishedJobsOf(db: Db, id: string): Promise<number> {
  const row = await db.selectFrom('users').select('unfinishedJobs as jobs').where('id', '=', id).executeTakeFirst();
  return row?.jobs ?? 0;
}

/** Throws if the id exists. */
export async function insertUser(tx: Tx, id: string, role: SiteRole, now: number): Promise<void> {
  await tx.insertInto('users').values({ id, role, createdAt: now }).execute();
}

/** Returns the next identifier of those that Bursar assigns. */
export async function nextUserId(tx: Tx): Promise<string> {
  const { first, last } = assignedUserIds;
  const row = await tx
    .selectFrom('users')
    .select('id')
    .where('id', '>=', first)
    .where('id', '<=', last)
    // Identifiers of other lengths are between those two as well.
    .where(sql<boolean>`length(id) = ${first.length}`)
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst();
  return nextAssignedUserId(row?.id);
}
