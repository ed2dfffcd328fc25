import Sqlite, { type Database } from 'better-sqlite3';
import { BursarError, storageUnavailable } from '../../domain/errors.ts';
import { type DatabaseObserver, noObserver } from './handle.ts';

/** One caller's writes within a group. Both methods let the next caller write, and return when the group has ended. */
export interface GroupMember {
  /**
   * Returns when the writes are on disk. After `database_unavailable` it is unknown whether they are; after the next
   * successful commit, by anybody, they are not. After every other error they are not.
   */
  commit(): Promise<void>;
  /** Rolls back only this caller's writes. */
  rollback(): Promise<void>;
}

/** Lets many callers write through one connection, one after the other. */
export interface GroupWriter {
  begin(): Promise<GroupMember>;
  /** Runs a statement of the member that is writing. Throws if its group has failed. */
  run<T>(statement: () => T): T;
  /** Runs statements that SQLite refuses inside a transaction, such as `vacuum`. */
  runOutsideTransaction<T>(work: () => T): Promise<T>;
  /** The error of the last group if the disk refused it. Undefined when a later group has been committed. */
  lastFailure(): BursarError | undefined;
  /** Commits the open group. */
  close(): void;
}

/** A commit of this many takes hardly longer than a commit of a few; the limit bounds how long members wait. */
const maxGroupSize = 64;

/** SQLite stores `user_version` in 32 bits, with a sign. Bursar does not use it otherwise. */
const maxUserVersion = 2 ** 31;

/** The promise is settled when the group has ended. */
type Group = PromiseWithResolvers<void> & { size: number };

/**
 * Group commit: syncing the disk costs more than most transactions, so transactions that arrive together become one
 * SQLite transaction, each with its own savepoint, and share one commit. They see each other's writes in order, as if
 * each had been committed before the next. A caller gets its result after the commit: until then all writes of the group
 * can be lost.
 */
export function createGroupWriter(database: Database, observer: DatabaseObserver = noObserver): GroupWriter {
  const lock = createLock();
  const statement = (sql: string) => {
    const prepared = database.prepare(sql);
    return () => withBursarErrors(() => prepared.run());
  };
  // Takes the write lock at once. A transaction that reads first and writes later fails when another process has
  // written in between.
  const beginImmediate = statement('begin immediate');
  const commitAll = statement('commit');
  const rollbackAll = statement('rollback');
  const openSavepoint = statement('savepoint member');
  const releaseSavepoint = statement('release member');
  const rollbackSavepoint = statement('rollback to member');
  let current: Group | undefined;
  let groupError: unknown;
  let diskFailure: BursarError | undefined;

  function join(): Group {
    const group = current ?? openGroup();
    openSavepoint();
    group.size += 1;
    return group;
  }

  function openGroup(): Group {
    beginImmediate();
    if (diskFailure !== undefined) overwriteFailedCommit();
    current = { size: 0, ...Promise.withResolvers<void>() };
    // Members await this promise and handle its rejection. A group without waiting members must not end the process.
    current.promise.catch(() => undefined);
    commitWhenQuiet(current, 0);
    return current;
  }

  /**
   * After a failed fsync the frames of the failed commit may be in the WAL file, and a crash would then bring its changes
   * back. Any write replaces them. SQLite does not write an update that changes nothing, so a number is incremented.
   */
  function overwriteFailedCommit(): void {
    try {
      const version = Number(database.pragma('user_version', { simple: true }));
      database.pragma(`user_version = ${(version + 1) % maxUserVersion}`);
    } catch (error) {
      if (database.inTransaction) rollbackAll();
      throw toBursarError(error);
    }
  }

  /** Commits after the first turn of the event loop in which nobody joined. */
  function commitWhenQuiet(group: Group, sizeBefore: number): void {
    setImmediate(() => {
      if (group.size > sizeBefore) commitWhenQuiet(group, group.size);
      else commitAfterWriters(group);
    });
  }

  /** Commits after the current writer and those that already wait for the lock. */
  async function commitAfterWriters(group: Group): Promise<void> {
    const unlock = await lock();
    if (group === current) commit();
    unlock();
  }

  function commit(): void {
    if (current === undefined) return;
    const group = current;
    const startedAt = performance.now();
    try {
      commitAll();
      observer.onOperation('commit', performance.now() - startedAt);
      observer.onGroupCommit(group.size);
      current = undefined;
      diskFailure = undefined;
      group.resolve();
    } catch (error) {
      failGroup(error);
    }
  }

  /** Fails all members: their writes are rolled back together. */
  function failGroup(error: unknown): void {
    const group = current;
    current = undefined;
    groupError = error;
    rememberDiskFailure(error);
    try {
      if (database.inTransaction) rollbackAll();
    } catch {
      // SQLite has ended the transaction all the same.
    }
    group?.reject(error);
  }

  function rememberDiskFailure(error: unknown): void {
    if (error instanceof BursarError && error.code !== 'unavailable') diskFailure = error;
  }

  return {
    async begin() {
      const unlock = await lock();
      try {
        const group = join();
        const end = async (endSavepoint: () => void) => {
          try {
            if (group === current) endSavepoint();
          } catch (error) {
            failGroup(error);
          }
          if (group.size >= maxGroupSize) commit();
          unlock();
          await group.promise;
        };
        const undoSavepoint = () => {
          rollbackSavepoint();
          releaseSavepoint();
        };
        return { commit: () => end(releaseSavepoint), rollback: () => end(undoSavepoint).catch(() => undefined) };
      } catch (error) {
        rememberDiskFailure(error);
        unlock();
        throw error;
      }
    },

    run(statement) {
      // Outside a transaction each statement would be committed on its own.
      if (!database.inTransaction) throw groupError;
      try {
        return withBursarErrors(statement);
      } catch (error) {
        // SQLite rolls the whole transaction back on some errors, such as a full disk.
        if (!database.inTransaction) failGroup(error);
        throw error;
      }
    },

    async runOutsideTransaction(work) {
      const unlock = await lock();
      try {
        commit();
        return withBursarErrors(work);
      } finally {
        unlock();
      }
    },

    lastFailure: () => diskFailure,

    close: commit,
  };
}

/** A first-in, first-out lock. The promise resolves with the function that unlocks it. */
function createLock(): () => Promise<() => void> {
  let last = Promise.resolve();
  return async () => {
    const previous = last;
    const { promise, resolve } = Promise.withResolvers<void>();
    last = promise;
    await previous;
    return resolve;
  };
}

/** SQLite could not write: certainly nothing was committed. */
const refusedWrites = ['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_READONLY', 'SQLITE_CANTOPEN'];
/** The disk failed otherwise. If that happened during a commit, such as in its fsync, the result is unknown. */
const diskErrors = ['SQLITE_IOERR'];
/** Another process holds the database, or memory is short. Nothing was committed. */
const transientErrors = ['SQLITE_BUSY', 'SQLITE_LOCKED', 'SQLITE_PROTOCOL', 'SQLITE_NOMEM'];

/** Turns transient errors of SQLite into BursarErrors and leaves all others unchanged. */
function toBursarError(error: unknown): unknown {
  if (!(error instanceof Sqlite.SqliteError)) return error;
  const { code } = error;
  const isOneOf = (codes: readonly string[]) => codes.some((prefix) => code.startsWith(prefix));
  if (isOneOf(refusedWrites)) return storageUnavailable(code, error);
  if (isOneOf(diskErrors)) {
    const message = `The database file cannot be read or written (${code}). Try again in a moment.`;
    return new BursarError('database_unavailable', message, { cause: error, transient: true });
  }
  if (!isOneOf(transientErrors)) return error;
  const message = `The database is busy (${code}). Try again in a moment.`;
  return new BursarError('unavailable', message, { cause: error, transient: true });
}

/** Calls a function of SQLite and translates its errors. */
export function withBursarErrors<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw toBursarError(error);
  }
}
