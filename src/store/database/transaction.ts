import { setTimeout as sleep } from 'node:timers/promises';
import type { Transaction, TransactionBuilder } from 'kysely';
import { BursarError } from '../../domain/errors.ts';
import type { Backend, Db, Tx } from './handle.ts';
import type { Tables } from './tables.ts';

const maxAttempts = 10;

/**
 * Runs `work` in one transaction. If the transaction conflicts with another one and is rolled back, it is retried, so
 * `work` must have no effects except through its handle. After `database_unavailable` it is unknown whether the
 * transaction was committed; after every other error it was not.
 */
export async function inTransaction<T>(db: Db, work: (tx: Tx) => Promise<T>): Promise<T> {
  const { isRetryableConflict } = db.backend.dialect;
  for (let attempt = 1; ; attempt++) {
    try {
      return await runWithoutRetry(db, db.transaction(), work);
    } catch (error) {
      if (!isRetryableConflict(error)) throw error;
      if (attempt === maxAttempts) throw tooManyConflicts(error);
      await sleep(Math.random() * 10 * attempt);
    }
  }
}

/** Runs `work` in a transaction with the settings of `builder`, such as its isolation level, and without retries. */
export async function runWithoutRetry<T>(db: Db, builder: TransactionBuilder<Tables>, work: (tx: Tx) => Promise<T>) {
  return await builder.execute((transaction) => runWork(db.backend, transaction, work));
}

/** Runs reads that all see the database as it was at one time. They block no writer, and see no writes of a later time. */
export async function inSnapshot<T>(db: Db, read: (snapshot: Db) => Promise<T>): Promise<T> {
  if (db.isTransaction) return await read(db);
  if (db.backend.openReader === undefined) {
    const builder = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    return await runWithoutRetry(db, builder, read);
  }
  await using reader = db.backend.openReader();
  return await runWithoutRetry(reader, reader.transaction(), read);
}

async function runWork<T>(backend: Backend, transaction: Transaction<Tables>, work: (tx: Tx) => Promise<T>) {
  let isOver = false;
  const run: Backend['run'] = (handle, query) => {
    // Kysely itself rejects late queries, but SQLite runs compiled queries without it.
    if (isOver) throw new Error('the transaction is over');
    return backend.run(handle, query);
  };
  try {
    return await work(Object.assign(transaction, { backend: { ...backend, run } }));
  } finally {
    isOver = true;
  }
}

function tooManyConflicts(cause: unknown): BursarError {
  const message = 'Too many requests are changing the same records. Try again in a moment.';
  return new BursarError('unavailable', message, { cause, transient: true });
}
