import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../../domain/errors.ts';
import { dialectOf } from './dialect.ts';
import { inTransactionOf } from './direct.ts';
import type { Db } from './tables.ts';

const mostTries = 10;

/**
 * Carries work out in one transaction. Where it meets another one and is rolled back for that, it is repeated, so the
 * work must do nothing but what it does through its handle. When this fails with `database_unavailable`, it is unknown
 * whether the work is in the books; after every other failure it is not.
 */
export async function inTransaction<T>(db: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  const { isRetryableConflict: metAnother } = dialectOf(db);
  for (let tries = 1; ; tries++) {
    try {
      return await db.transaction().execute((tx) => inTransactionOf(db, tx, work));
    } catch (error) {
      if (!metAnother(error)) throw error;
      if (tries === mostTries) throw tooBusy(error);
      await sleep(Math.random() * 10 * tries);
    }
  }
}

function tooBusy(cause: unknown): BursarError {
  const message = 'Too many want to change the same thing just now. Try again in a moment.';
  return new BursarError('unavailable', message, { cause, transient: true });
}
