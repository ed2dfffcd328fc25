import type { CompiledQuery, QueryResult } from 'kysely';
import type { Db } from './tables.ts';

/** Runs a statement as it is, at once. */
export type RunStatement = (query: Pick<CompiledQuery, 'sql' | 'parameters'>) => QueryResult<unknown>;

interface Runners {
  /** Sees what is committed. */
  read: RunStatement;
  /** For who has the turn to write. */
  write: RunStatement;
}

const runners = new WeakMap<Db, Runners>();
const transactions = new WeakMap<Db, RunStatement>();

/**
 * On SQLite a statement is a call, and nothing is waited for. What Kysely does around each, for databases that are
 * further away, takes longer than most statements; those that are prepared once are run without it.
 */
export function runDirectly(db: Db, handles: Runners): void {
  runners.set(db, handles);
}

/** Carries the work of a transaction out. When it is over, so is the way past Kysely, which refuses whoever comes late. */
export async function inTransactionOf<T>(db: Db, tx: Db, work: (tx: Db) => Promise<T>): Promise<T> {
  const write = runners.get(db)?.write;
  if (write === undefined) return await work(tx);
  transactions.set(tx, write);
  try {
    return await work(tx);
  } finally {
    transactions.delete(tx);
  }
}

/** Undefined for what has to go through Kysely: on other databases, and to write outside of a transaction. */
export function runnerOf(db: Db, isRead: boolean): RunStatement | undefined {
  return transactions.get(db) ?? (isRead ? runners.get(db)?.read : undefined);
}
