import type { ExpressionBuilder } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import type { Tables } from '../database/tables.ts';

/** Keys are separate for each user. */
export interface IdempotencyKey {
  userId: string;
  key: string;
}

/** A key and a random id of the request that has claimed it. */
export interface ClaimedKey extends IdempotencyKey {
  claimId: string;
}

export type KeyRecord = NonNullable<Awaited<ReturnType<typeof findKey>>>;

/**
 * Claims a key that is unused, or whose claim has expired or is `abandoned`, the id of a claim. Returns false, without a change, if
 * another request has it.
 */
export async function insertClaim(
  db: Db,
  { userId, key, claimId }: ClaimedKey,
  requestHash: string,
  { now, until, abandoned = '' }: { now: number; until: number; abandoned?: string | undefined },
): Promise<boolean> {
  const values = { requestHash, at: now, claimedBy: claimId, claimedUntil: until };
  const row = await db
    .insertInto('idempotency')
    .values({ userId, key, response: '', bodySha256: null, ...values })
    .onConflict((conflict) =>
      conflict
        .columns(['userId', 'key'])
        .doUpdateSet(values)
        .where('idempotency.claimedBy', 'is not', null)
        .where((eb) => eb.or([eb('idempotency.claimedUntil', '<=', now), eb('idempotency.claimedBy', '=', abandoned)])),
    )
    .returning('key')
    .executeTakeFirst();
  return row !== undefined;
}

export async function findKey(db: Db, { userId, key }: IdempotencyKey) {
  const query = db.selectFrom('idempotency').selectAll().where('userId', '=', userId).where('key', '=', key);
  return await query.executeTakeFirst();
}

const isClaim =
  ({ userId, key, claimId }: ClaimedKey) =>
  (eb: ExpressionBuilder<Tables, 'idempotency'>) =>
    eb.and({ userId, key, claimedBy: claimId });

/** Stores the response for repeated requests. Returns false, without a change, if the claim was lost. */
export async function storeResponse(
  tx: Tx,
  claim: ClaimedKey,
  { response, bodySha256, at }: { response: string; bodySha256: string | null; at: number },
): Promise<boolean> {
  const result = await tx
    .updateTable('idempotency')
    .set({ response, bodySha256, at, claimedBy: null })
    .where(isClaim(claim))
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

export async function extendClaim(db: Db, claim: ClaimedKey, until: number): Promise<void> {
  await db.updateTable('idempotency').set({ claimedUntil: until }).where(isClaim(claim)).execute();
}

/** Deletes the key of a request that failed. A key with a stored response stays. */
export async function deleteClaim(db: Db, claim: ClaimedKey): Promise<void> {
  await db.deleteFrom('idempotency').where(isClaim(claim)).execute();
}

/** Deletes the keys of all requests in progress. The caller makes sure that no instance works on any. */
export async function deleteAllClaims(db: Db): Promise<void> {
  await db.deleteFrom('idempotency').where('claimedBy', 'is not', null).execute();
}

/** Deletes old keys. A request that is repeated later counts as a new one. */
export async function deleteOldKeys(db: Db, before: number): Promise<void> {
  await db.deleteFrom('idempotency').where('at', '<', before).where('claimedUntil', '<', before).execute();
}
