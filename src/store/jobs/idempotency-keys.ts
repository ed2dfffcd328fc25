import type { Db, Tx } from '../database/handle.ts';

/** Keys are separate for each user. */
export interface IdempotencyKey {
  userId: string;
  key: string;
}

/** A key and a random id of the request that holds it. */
export interface HeldKey extends IdempotencyKey {
  holder: string;
}

export interface KeyRecord {
  requestHash: string;
  response: string;
  bodySha256: string | null;
  /** Whether the request is still in progress. */
  isHeld: boolean;
}

/** Acquires a key that is unused or has expired. Returns false, without a change, if another request has it. */
export async function acquireKey(
  db: Db,
  { userId, key, holder }: HeldKey,
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

/** Stores the response for repeated requests. Returns false, without a change, if the caller no longer holds the key. */
export async function storeResponse(
  tx: Tx,
  { userId, key, holder }: HeldKey,
  { response, bodySha256, at }: { response: string; bodySha256: string | null; at: number },
): Promise<boolean> {
  const result = await tx
    .updateTable('idempotency')
    .set({ response, body_sha256: bodySha256, at, claimed_by: null })
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('claimed_by', '=', holder)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function extendKey(db: Db, { userId, key, holder }: HeldKey, until: number): Promise<void> {
  await db
    .updateTable('idempotency')
    .set({ claimed_until: until })
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('claimed_by', '=', holder)
    .execute();
}

/** Deletes the key of a request that failed. A key with a stored response stays. */
export async function releaseKey(db: Db, { userId, key, holder }: HeldKey): Promise<void> {
  await db
    .deleteFrom('idempotency')
    .where('user_id', '=', userId)
    .where('key', '=', key)
    .where('claimed_by', '=', holder)
    .execute();
}

/** Deletes the keys of all requests in progress. The caller makes sure that no instance works on any. */
export async function releaseAllKeys(db: Db): Promise<void> {
  await db.deleteFrom('idempotency').where('claimed_by', 'is not', null).execute();
}

/** Deletes old keys. A request that is repeated later counts as a new one. */
export async function deleteOldKeys(db: Db, before: number): Promise<void> {
  await db.deleteFrom('idempotency').where('at', '<', before).where('claimed_until', '<', before).execute();
}
