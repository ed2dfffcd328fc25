import type { Db } from './tables.ts';

export interface StoredAnswer {
  userId: string;
  key: string;
  requestHash: string;
  response: string;
  at: number;
}

export async function findAnswer(
  db: Db,
  userId: string,
  key: string,
): Promise<Pick<StoredAnswer, 'requestHash' | 'response'> | undefined> {
  return await db
    .selectFrom('idempotency')
    .select(['request_hash as requestHash', 'response'])
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .executeTakeFirst();
}

export async function insertAnswer(db: Db, answer: StoredAnswer): Promise<void> {
  const { userId, key, requestHash, response, at } = answer;
  await db
    .insertInto('idempotency')
    .values({ user_id: userId, key, request_hash: requestHash, response, at })
    .execute();
}

/** Forgets keys from before a moment; whoever repeats a request later than that is taken for new. */
export async function forgetAnswers(db: Db, before: number): Promise<void> {
  await db.deleteFrom('idempotency').where('at', '<', before).execute();
}
