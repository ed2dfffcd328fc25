import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';

export type Role = 'user' | 'admin';

/** Creates the user if it does not exist. An existing user can become an administrator, but never loses that role here. */
export async function upsertUser(tx: Tx, id: string, role: Role, now: number): Promise<void> {
  await tx
    .insertInto('users')
    .values({ id, role, created_at: now })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
  if (role === 'admin') await tx.updateTable('users').set({ role }).where('id', '=', id).execute();
}

export async function userExists(db: Db, id: string): Promise<boolean> {
  return (await db.selectFrom('users').select('id').where('id', '=', id).executeTakeFirst()) !== undefined;
}

export async function listUserIds(db: Db): Promise<string[]> {
  return (await db.selectFrom('users').select('id').orderBy('id').execute()).map((user) => user.id);
}

export async function listUsers(db: Db): Promise<{ id: string; role: Role; createdAt: number }[]> {
  return await db.selectFrom('users').select(['id', 'role', 'created_at as createdAt']).orderBy('id').execute();
}

export async function countUnfinishedJobsOf(db: Db, id: string): Promise<number> {
  const row = await db.selectFrom('users').select('unfinished_jobs as jobs').where('id', '=', id).executeTakeFirst();
  return row?.jobs ?? 0;
}

/** Finds the user of an OpenID Connect issuer and subject. */
export async function findUserByIdentity(db: Db, issuer: string, subject: string): Promise<string | undefined> {
  const row = await db
    .selectFrom('identities')
    .select('user_id')
    .where('issuer', '=', issuer)
    .where('subject', '=', subject)
    .executeTakeFirst();
  return row?.user_id;
}

export async function insertIdentity(tx: Tx, issuer: string, subject: string, userId: string): Promise<void> {
  await tx.insertInto('identities').values({ issuer, subject, user_id: userId }).execute();
}

/** Throws if the id exists. */
export async function insertUser(tx: Tx, id: string, role: Role, now: number): Promise<void> {
  await tx.insertInto('users').values({ id, role, created_at: now }).execute();
}

/** Returns an unused user id: one more than the largest safe integer in use, with at least six digits. */
export async function nextUserId(tx: Tx): Promise<string> {
  const { largest } = await tx
    .selectFrom('users')
    .select(sql<number | null>`max(cast(id as bigint))`.as('largest'))
    .where(sql<boolean>`length(id) <= 15`)
    .executeTakeFirstOrThrow();
  return String(Math.max(100_000, Number(largest ?? 0)) + 1);
}
