import { hash, randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { BursarError } from '../domain/errors.ts';
import type { Db, Tx } from '../store/database/handle.ts';
import { inTransaction } from '../store/database/transaction.ts';
import {
  type ClaimedKey,
  deleteClaim,
  extendClaim,
  findKey,
  insertClaim,
  type KeyRecord,
  storeResponse,
} from '../store/jobs/idempotency-keys.ts';

/**
 * A repeated request with the same key, at once, after a crash or within a day, returns the first response and changes
 * nothing. Only successful responses are stored: a rejected request changed nothing, so its repetition runs again.
 */
export interface IdempotentRequest {
  userId: string;
  /** Chosen by the caller, and sent again with every repetition. */
  key: string;
  /** Method, path and body. Only their meaning is compared, not the formatting of the JSON. */
  content: unknown;
}

const claimMs = 60_000;
export const extensionMs = claimMs / 4;

/** Runs once for each key, in one transaction with storing the response. Without a request it simply runs. */
export async function runOnce<T>(
  db: Db,
  request: IdempotentRequest | null,
  now: number,
  run: (tx: Tx) => Promise<T>,
): Promise<T> {
  return await inTransaction(db, async (tx) => {
    if (request === null) return await run(tx);
    const claimedKey = toClaimedKey(request);
    // The claim may expire at once: the transaction itself locks the row.
    const isClaimed = await insertClaim(tx, claimedKey, hashContent(request), { now, until: now });
    if (!isClaimed) return JSON.parse((await requireEarlierResponse(tx, request)).response) as T;
    const response = await run(tx);
    await storeResponse(tx, claimedKey, { response: JSON.stringify(response) ?? 'null', bodySha256: null, at: now });
    return response;
  });
}

/** The stored response, for requests that do work before their transaction. */
export async function findStoredResponse<T>(db: Db, request: IdempotentRequest | null): Promise<T | undefined> {
  if (request === null || (await findKey(db, request)) === undefined) return undefined;
  return JSON.parse((await requireEarlierResponse(db, request)).response) as T;
}

/** The exclusive right to run a request that takes longer than a transaction. It expires a minute after a crash. */
export interface KeyClaim {
  /** Call it every `extensionMs` while the request is in progress. */
  extend(): void;
  /** Stores the response in the transaction of the request. Throws if the claim was lost, so that nothing is done twice. */
  complete(tx: Tx, response: string, bodySha256: string): Promise<void>;
  /** Frees the key after a request that failed. Never throws. */
  release(): Promise<void>;
}

/**
 * Claims of failed requests that could not be deleted from the database, such as on a full disk, by user and key. A
 * repetition on this server takes such a claim over.
 */
export type AbandonedClaims = LRUCache<string, string>;

const maxAbandonedClaims = 10_000;

export function createAbandonedClaims(): AbandonedClaims {
  // With `max` it would allocate the memory of all entries at once.
  return new LRUCache({ maxSize: maxAbandonedClaims, sizeCalculation: () => 1, ttl: claimMs });
}

/** Claims a key, or returns the earlier response. */
export async function claimKey(
  db: Db,
  request: IdempotentRequest,
  abandonedClaims: AbandonedClaims,
  now: () => number,
): Promise<{ claim: KeyClaim } | { earlier: KeyRecord }> {
  const claimedKey = toClaimedKey(request);
  const name = `${request.userId} ${request.key}`;
  const times = { now: now(), until: now() + claimMs, abandoned: abandonedClaims.get(name) };
  if (!(await insertClaim(db, claimedKey, hashContent(request), times))) {
    return { earlier: await requireEarlierResponse(db, request) };
  }
  const claim: KeyClaim = {
    extend() {
      // If this fails the claim may be lost. Then `complete` throws.
      extendClaim(db, claimedKey, now() + claimMs).catch(() => undefined);
    },
    async complete(tx, response, bodySha256) {
      if (!(await storeResponse(tx, claimedKey, { response, bodySha256, at: now() }))) throw keyInUse();
    },
    release: () =>
      deleteClaim(db, claimedKey).catch(() => {
        abandonedClaims.set(name, claimedKey.claimId);
      }),
  };
  return { claim };
}

/** Throws unless the key was used for the same request, and its response is stored. */
async function requireEarlierResponse(db: Db, request: IdempotentRequest): Promise<KeyRecord> {
  const earlier = await findKey(db, request);
  // A failed request has just released the key. A retry can claim it.
  if (earlier === undefined) throw keyInUse();
  if (earlier.requestHash !== hashContent(request)) throw keyReused();
  if (earlier.claimedBy !== null) throw keyInUse();
  return earlier;
}

export function keyReused(): BursarError {
  return new BursarError(
    'idempotency_key_reused',
    'This Idempotency-Key was used for a different request. Choose a new one.',
  );
}

function keyInUse(): BursarError {
  return new BursarError(
    'idempotency_key_in_use',
    'The first request with this Idempotency-Key is still in progress. Try again in a moment, with the same key.',
    { transient: true, retryAfterSeconds: 2 },
  );
}

function toClaimedKey({ userId, key }: IdempotentRequest): ClaimedKey {
  return { userId, key, claimId: randomUUID() };
}

function hashContent({ content }: IdempotentRequest): string {
  return hash('sha256', canonicalJson(content));
}

/** No request needs more. `JSON.stringify` overflows the stack beyond some thousand. */
const maxJsonDepth = 100;

/** JSON with sorted keys and no spaces, so that equal values give equal texts. */
function canonicalJson(value: unknown): string {
  if (isDeeperThan(value, maxJsonDepth)) {
    const message = `The JSON of the request is nested more than ${maxJsonDepth} levels deep. Send it with fewer levels.`;
    throw new BursarError('bad_request', message);
  }
  return JSON.stringify(value, (_key, inner: unknown) => (isPlainObject(inner) ? sortKeys(inner) : inner)) ?? 'null';
}

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((inner) => isDeeperThan(inner, levels - 1));
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function sortKeys(value: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}
