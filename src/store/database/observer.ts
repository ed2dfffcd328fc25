/**
 * `statement`: one outside of a transaction. `transaction`: from its begin to its end, commit or rollback included. `commit`:
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
