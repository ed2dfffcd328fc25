import type { CompiledQuery, Kysely, Transaction } from 'kysely';
import type { BursarError } from '../../domain/errors.ts';
import type { Dialect } from './dialect.ts';
import type { Tables } from './tables.ts';

/** The parts of a handle that depend on the kind of database behind it. */
export interface Backend {
  readonly dialect: Dialect;
  /** Runs a query that was compiled before, on the database or in a transaction. */
  run<Row>(handle: Kysely<Tables>, query: CompiledQuery<Row>): Promise<readonly Row[]>;
  /** Opens a connection for reads in a transaction. On SQLite other transactions lock the database for writing. */
  openReader?(): Db;
  /**
   * The connections of the pool, and the number of operations that wait for one. Undefined on SQLite, which has no pool, and
   * before the first query.
   */
  poolStatus?(): { idle: number; busy: number; waiting: number } | undefined;
  /** The error of the last write that the disk refused. Undefined when the database could be written since. */
  lastWriteFailure(): BursarError | undefined;
  /** Writes, after a failure, to find out whether the database can be written again. Throws if not. */
  probeWrite(handle: Kysely<Tables>): Promise<void>;
}

/** A handle for queries: the database or, inside a transaction, the transaction only. */
export type Db = Kysely<Tables> & { readonly backend: Backend };

/**
 * A transaction that is under way. Functions whose writes belong to a larger whole take it instead of a `Db`, so that
 * calling them outside a transaction does not compile.
 */
export type Tx = Transaction<Tables> & { readonly backend: Backend };

/**
 * `statement`: one outside a transaction. `transaction`: from its begin to its end, commit or rollback included. `commit`:
 * until the data is on disk. `acquire`: the wait for a connection (PostgreSQL) or for the turn to write (SQLite).
 */
export type DatabaseOperation = 'statement' | 'transaction' | 'commit' | 'acquire';

/** Measures the operations of a database. Its methods are called often, and must be fast. */
export interface DatabaseObserver {
  onOperation(operation: DatabaseOperation, ms: number): void;
  /** Called when several transactions were committed together. SQLite only. */
  onGroupCommit(transactions: number): void;
}

export const noObserver: DatabaseObserver = { onOperation: () => undefined, onGroupCommit: () => undefined };
