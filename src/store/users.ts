import type { Db } from './tables.ts';

export type Role = 'user' | 'admin';

/** Creates the user where unknown; an existing one keeps its role unless it is raised. */
export async function upsertUser(db: Db, id: string, role: Role, now: number): Promise<void> {
  await db
    .insertInto('users')
    .values({ id, role, created_at: now })
    .onConflict((conflict) => conflict.column('id').doNothing())
    .execute();
  if (role === 'admin') await db.updateTable('users').set({ role }).where('id', '=', id).execute();
}

export async function userExists(db: Db, id: string): Promise<boolean> {
  return (await db.selectFrom('users').select('id').where('id', '=', id).executeTakeFirst()) !== undefined;
}

export async function userIds(db: Db): Promise<string[]> {
  return (await db.selectFrom('users').select('id').orderBy('id').execute()).map((user) => user.id);
}
