import type { Db, Tx } from '../database/handle.ts';

export async function insertSignInCode(
  db: Db,
  code: { hash: string; userId: string; createdAt: number; expiresAt: number },
): Promise<void> {
  const { hash, userId, createdAt, expiresAt } = code;
  await db.insertInto('signInCodes').values({ hash, userId, createdAt, expiresAt }).execute();
}

/** The user of a code that can be used. */
export async function findSignInCode(db: Db, hash: string, now: number): Promise<string | undefined> {
  const row = await db
    .selectFrom('signInCodes')
    .select('userId')
    .where('hash', '=', hash)
    .where('expiresAt', '>', now)
    .executeTakeFirst();
  return row?.userId;
}

/** Like `findSignInCode`, and deletes the code: of two requests at the same time one gets the user. */
export async function takeSignInCode(tx: Tx, hash: string, now: number): Promise<string | undefined> {
  const row = await tx
    .deleteFrom('signInCodes')
    .where('hash', '=', hash)
    .where('expiresAt', '>', now)
    .returning('userId')
    .executeTakeFirst();
  return row?.userId;
}
