import type { Db, Tx } from '../database/handle.ts';

export async function insertSignInCode(
  db: Db,
  code: { hash: string; userId: string; createdAt: number; expiresAt: number },
): Promise<void> {
  const { hash, userId, createdAt, expiresAt } = code;
  await db
    .insertInto('sign_in_codes')
    .values({ hash, user_id: userId, created_at: createdAt, expires_at: expiresAt })
    .execute();
}

/** The user of a code that can be used. */
export async function findSignInCode(db: Db, hash: string, now: number): Promise<string | undefined> {
  const row = await db
    .selectFrom('sign_in_codes')
    .select('user_id')
    .where('hash', '=', hash)
    .where('expires_at', '>', now)
    .executeTakeFirst();
  return row?.user_id;
}

/** Like `findSignInCode`, and deletes the code: of two requests at the same time one gets the user. */
export async function takeSignInCode(tx: Tx, hash: string, now: number): Promise<string | undefined> {
  const row = await tx
    .deleteFrom('sign_in_codes')
    .where('hash', '=', hash)
    .where('expires_at', '>', now)
    .returning('user_id')
    .executeTakeFirst();
  return row?.user_id;
}
