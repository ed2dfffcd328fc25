import { createHash } from 'node:crypto';
import { BursarError } from '../domain/errors.ts';
import { findAnswer, insertAnswer } from '../store/idempotency.ts';
import type { Db } from '../store/tables.ts';
import { inTransaction } from '../store/transaction.ts';

export interface OnceRequest {
  userId: string;
  /** Chosen by the caller; the same for every repetition. */
  key: string;
  /** Everything that makes the request what it is: method, path and body. */
  content: unknown;
}

/**
 * Carries an act out once for each key. Act and answer are stored in one transaction, so a repetition, at once, after
 * a crash or a day later, gets the first answer and changes nothing. An act that fails uses no key up.
 */
export async function once<T>(db: Db, request: OnceRequest, now: number, act: (tx: Db) => Promise<T>): Promise<T> {
  const { userId, key } = request;
  const hash = createHash('sha256').update(JSON.stringify(request.content)).digest('hex');
  return await inTransaction(db, async (tx) => {
    const earlier = await findAnswer(tx, userId, key);
    if (earlier !== undefined) {
      if (earlier.requestHash === hash) return JSON.parse(earlier.response) as T;
      throw new BursarError(
        'idempotency_key_reused',
        'This Idempotency-Key stands for another request. Choose a new one.',
      );
    }
    const answer = await act(tx);
    await insertAnswer(tx, { userId, key, requestHash: hash, response: JSON.stringify(answer), at: now });
    return answer;
  });
}
