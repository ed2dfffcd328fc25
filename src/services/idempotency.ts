import { createHash, randomUUID } from 'node:crypto';
import { BursarError } from '../domain/errors.ts';
import type { Db, Tx } from '../store/database/handle.ts';
import { inTransaction } from '../store/database/transaction.ts';
import {
  acquireKey,
  extendKey,
  findKey,
  type KeyRecord,
  type OwnedKey,
  releaseKey,
  storeResponse,
} from '../store/jobs/idempotency-keys.ts';
import { canonicalJson } from './canonical-json.ts';

/**
 * A repetition of a request under the same key, at once, after a crash or within a day, gets the first answer and does
 * nothing. Only what succeeded is remembered: a refusal changed nothing, so its repetition is tried anew.
 */
export interface IdempotentRequest {
  userId: string;
  /** Chosen by the caller; the same for every repetition. */
  key: string;
  /** Everything that makes the request what it is: method, path and body. How it is spelt does not matter. */
  content: unknown;
}

const claimMs = 60_000;

/** Carries an act out once for each key, in one transaction with its answer. Without a request it is just carried out. */
export async function runOnce<T>(
  db: Db,
  request: IdempotentRequest | null,
  now: number,
  act: (tx: Tx) => Promise<T>,
): Promise<T> {
  return await inTransaction(db, async (tx) => {
    if (request === null) return await act(tx);
    const holder = holderOf(request);
    const isOurs = await acquireKey(tx, holder, hashOf(request), { now, until: now });
    if (!isOurs) return JSON.parse((await earlierAnswer(tx, request)).response) as T;
    const answer = await act(tx);
    await storeResponse(tx, holder, { response: JSON.stringify(answer) ?? 'null', bodySha256: null, at: now });
    return answer;
  });
}

/** The same for what only reads, and needs no transaction. */
export async function readOnce<T>(
  db: Db,
  request: IdempotentRequest | null,
  now: number,
  read: () => Promise<T>,
): Promise<T> {
  const earlier = await storedResponse<T>(db, request);
  if (earlier !== undefined) return earlier;
  const answer = await read();
  return request === null ? answer : await runOnce(db, request, now, async () => answer);
}

/** The answer that a request got before, for what has something to do before its transaction. */
export async function storedResponse<T>(db: Db, request: IdempotentRequest | null): Promise<T | undefined> {
  if (request === null || (await findKey(db, request)) === undefined) return undefined;
  return JSON.parse((await earlierAnswer(db, request)).response) as T;
}

/** The right to carry a request out that takes longer than a transaction. Who is killed loses it after a minute. */
export interface KeyClaim {
  /** Call it while the request is in progress, as often as you like. */
  extend(): void;
  /** Stores the response in the transaction of the request. Throws if the claim was lost, so that nothing is done twice. */
  complete(tx: Tx, response: string, bodySha256: string): Promise<void>;
  /** Frees the key after a request that failed. */
  release(): Promise<void>;
}

/** A claim on a key, or what was answered before. */
export async function claimKey(
  db: Db,
  request: IdempotentRequest,
  now: () => number,
): Promise<{ claim: KeyClaim } | { earlier: KeyRecord }> {
  const holder = holderOf(request);
  let keptAt = now();
  if (!(await acquireKey(db, holder, hashOf(request), { now: keptAt, until: keptAt + claimMs }))) {
    return { earlier: await earlierAnswer(db, request) };
  }
  const claim: KeyClaim = {
    extend() {
      if (now() - keptAt < claimMs / 4) return;
      keptAt = now();
      // If this fails the claim may be lost. Then `complete` throws.
      extendKey(db, holder, keptAt + claimMs).catch(() => undefined);
    },
    async complete(tx, response, bodySha256) {
      if (!(await storeResponse(tx, holder, { response, bodySha256, at: now() }))) throw inUse();
    },
    release: () => releaseKey(db, holder),
  };
  return { claim };
}

/** Throws unless the key's request is the same one, and is answered. */
async function earlierAnswer(db: Db, request: IdempotentRequest): Promise<KeyRecord> {
  const earlier = await findKey(db, request);
  // Freed just now, by a request that failed: whoever repeats this one can have it.
  if (earlier === undefined) throw inUse();
  if (earlier.requestHash !== hashOf(request)) throw keyReused();
  if (earlier.isHeld) throw inUse();
  return earlier;
}

export function keyReused(): BursarError {
  return new BursarError(
    'idempotency_key_reused',
    'This Idempotency-Key stands for another request. Choose a new one.',
  );
}

function inUse(): BursarError {
  return new BursarError(
    'idempotency_key_in_use',
    'The request of this Idempotency-Key is still being worked on. Try again in a moment, with the same key.',
    { transient: true, retryAfterSeconds: 2 },
  );
}

function holderOf({ userId, key }: IdempotentRequest): OwnedKey {
  return { userId, key, holder: randomUUID() };
}

function hashOf({ content }: IdempotentRequest): string {
  return createHash('sha256').update(canonicalJson(content)).digest('hex');
}
