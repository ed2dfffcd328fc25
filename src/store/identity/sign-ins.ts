import type { Db, Tx } from '../database/handle.ts';
import type { NewRow, Row } from '../database/tables.ts';

export async function insertSignInAttempt(db: Db, attempt: NewRow<'signInAttempts'>): Promise<void> {
  await db.insertInto('signInAttempts').values(attempt).execute();
}

/** Returns the attempt and deletes it, so that it can be completed once. */
export async function takeSignInAttempt(db: Db, hash: string): Promise<Row<'signInAttempts'> | undefined> {
  return await db.deleteFrom('signInAttempts').where('hash', '=', hash).returningAll().executeTakeFirst();
}

export async function insertSignInCode(db: Db, code: NewRow<'signInCodes'>): Promise<void> {
  await db.insertInto('signInCodes').values(code).execute();
}

/** The user of a code that can be used. */
export async function findSignInCode(db: Db, hash: string, now: number): Promise<string | undefined> {
  const query = db.selectFrom('signInCodes').select('userId').where('hash', '=', hash);
  return (await query.where('expiresAt', '>', now).executeTakeFirst())?.userId;
}

/** Like `findSignInCode`, and deletes the code: of two requests at the same time one gets the user. */
export async function takeSignInCode(tx: Tx, hash: string, now: number): Promise<string | undefined> {
  const query = tx.deleteFrom('signInCodes').where('hash', '=', hash).where('expiresAt', '>', now);
  return (await query.returning('userId').executeTakeFirst())?.userId;
}

const expiringTables = ['sessions', 'signInCodes', 'signInAttempts', 'deviceRequests'] as const;

/** Deletes sessions and unfinished sign-ins that ended before this time. */
export async function deleteExpiredSignIns(tx: Tx, before: number): Promise<void> {
  for (const table of expiringTables) await tx.deleteFrom(table).where('expiresAt', '<', before).execute();
}
