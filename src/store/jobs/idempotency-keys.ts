import type { Db, Tx } from '../database/handle.ts';

/** A key belongs to a user: that of another one is another key. */
export interface IdempotencyKey {
  userId: string;
  key: string;
}

/** Whoever works on a request holds its key, until a moment that can be put off. */
export interface OwnedKey extends IdempotencyKey {
  holder: string;
}

export interface KeyRecord {
  requestHash: string;
  response: string;
  bodySha256: string | null;
  /** Whether its request is still being worked on. */
  isHeld: boolean;
}

/** True when the key is free, or its holder has let its time run out: then it is the caller's. */
export async function acquireKey(
  db: Db,
  { userId, key, holder }: OwnedKey,
  requestHash: string,
  { now, until }: { now: number; until: number },
): Promise<boolean> {
  const values = { request_hash: requestHash, at: now, claimed_by: holder, claimed_until: until };
  const row = await db
    .insertInto('idempotency')
    .values({ user_id: userId, key, response: '', body_sha256: null, ...values })
    .onConflict((conflict) =>
      conflict
        .columns(['user_id', 'key'])
        .doUpdateSet(values)
        .where('idempotency.claimed_by', 'is not', null)
        .where('idempotency.claimed_until', '<=', now),
    )
    .returning('key')
    .executeTakeFirst();
  return row !== undefined;
}

export async function findKey(db: Db, { userId, key }: IdempotencyKey): Promise<KeyRecord | undefined> {
  const row = await db
    .selectFrom('idempotency')
    .select(['request_hash as requestHash', 'response', 'body_sha256 as bodySha256', 'claimed_by'])
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { claimed_by, ...record } = row;
  return { ...record, isHeld: claimed_by !== null };
}

/** Stores the answer for every repetition. False, and nothing stored, when the key is no longer the caller's. */
export async function storeResponse(
  tx: Tx,
  holder: OwnedKey,
  answer: { response: string; bodySha256: string | null; at: number },
): Promise<boolean> {
  const { response, bodySha256, at } = answer;
  const result = await tx
    .updateTable('idempotency')
    .set({ response, body_sha256: bodySha256, at, claimed_by: null })
    .where('user_id', '=', holder.userId)
    .where('key', '=', holder.key)
    .where('claimed_by', '=', holder.holder)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function extendKey(db: Db, { userId, key, holder }: OwnedKey, until: number): Promise<void> {
  await db
    .updateTable('idempotency')
    .set({ claimed_until: until })
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('claimed_by', '=', holder)
    .execute();
}

/** Frees a key whose request came to nothing. One that is answered stays. */
export async function releaseKey(db: Db, { userId, key, holder }: OwnedKey): Promise<void> {
  await db
    .deleteFrom('idempotency')
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('claimed_by', '=', holder)
    .execute();
}

/** Frees all keys that are held: for a server that has just taken the data folder for itself. */
export async function releaseAllKeys(db: Db): Promise<void> {
  await db.deleteFrom('idempotency').where('claimed_by', 'is not', null).execute();
}

/** Forgets keys from before a moment; whoever repeats a request later than that is taken for new. */
export async function deleteOldKeys(db: Db, before: number): Promise<void> {
  await db.deleteFrom('idempotency').where('at', '<', before).where('claimed_until', '<', before).execute();
}
