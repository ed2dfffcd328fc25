import type { Database } from 'better-sqlite3';

/** One caller's writes within a group. Both methods let the next caller write, and return when the group has ended. */
export interface GroupMember {
  /** Returns when the writes are on disk. Throws if they are not; then none of them is. */
  commit(): Promise<void>;
  /** Rolls back only this caller's writes. */
  rollback(): Promise<void>;
}

/** Lets many callers write through one connection, one after the other. */
export interface GroupWriter {
  begin(): Promise<GroupMember>;
  /** Runs statements that SQLite refuses inside a transaction, such as `vacuum`. */
  runOutsideTransaction<T>(work: () => T): Promise<T>;
  /** Commits the open group. */
  close(): void;
}

/** A commit of this many takes hardly longer than a commit of a few; the limit bounds how long members wait. */
const maxGroupSize = 64;

interface Group {
  size: number;
  ended: Promise<void>;
  resolve(): void;
  reject(error: unknown): void;
}

/**
 * Group commit: syncing the disk costs more than most transactions, so transactions that arrive together become one
 * SQLite transaction, each with its own savepoint, and share one commit. They see each other's writes in order, as if
 * each had been committed before the next. A caller gets its result after the commit: until then all writes of the group
 * can be lost.
 */
export function createGroupWriter(database: Database, onCommit: () => void): GroupWriter {
  const lock = createLock();
  const statement = (sql: string) => {
    const prepared = database.prepare(sql);
    return () => prepared.run();
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

  function join(): Group {
    const group = current ?? openGroup();
    openSavepoint();
    group.size += 1;
    return group;
  }

  function openGroup(): Group {
    beginImmediate();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // Members await this promise and handle its rejection. A group without waiting members must not end the process.
    promise.catch(() => undefined);
    current = { size: 0, ended: promise, resolve, reject };
    commitWhenQuiet(current, 0);
    return current;
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
    try {
      commitAll();
      current = undefined;
      onCommit();
      group.resolve();
    } catch (error) {
      failGroup(error);
    }
  }

  /** Fails all members: SQLite rolls the whole transaction back on some errors, such as a full disk. */
  function failGroup(error: unknown): void {
    const group = current;
    current = undefined;
    if (database.inTransaction) rollbackAll();
    group?.reject(error);
  }

  return {
    async begin() {
      const unlock = await lock();
      try {
        const group = join();
        const end = async (endSavepoint: () => void) => {
          try {
            endSavepoint();
          } catch (error) {
            failGroup(error);
          }
          if (group.size >= maxGroupSize) commit();
          unlock();
          await group.ended;
        };
        const undoSavepoint = () => {
          rollbackSavepoint();
          releaseSavepoint();
        };
        return { commit: () => end(releaseSavepoint), rollback: () => end(undoSavepoint).catch(() => undefined) };
      } catch (error) {
        unlock();
        throw error;
      }
    },

    async runOutsideTransaction(work) {
      const unlock = await lock();
      try {
        commit();
        return work();
      } finally {
        onCommit();
        unlock();
      }
    },

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
