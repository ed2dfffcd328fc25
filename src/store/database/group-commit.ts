import type { Database } from 'better-sqlite3';

/** What one caller writes, from its turn until it keeps or undoes it. Both end the turn at once. */
export interface Share {
  /** Returns when what was written is on disk. Throws when it is not, and then nothing of it is. */
  keep(): Promise<void>;
  /** Takes back what was written. What others have written stays. */
  undo(): Promise<void>;
}

/** One connection that many write by, one after the other. */
export interface SharedWriter {
  begin(): Promise<Share>;
  /** For what cannot be in a transaction with others. */
  alone<T>(work: () => T): Promise<T>;
  /** Commits what is waiting for it. */
  close(): void;
}

/** The commit of so many takes no longer than a few; it is for those who wait for it that there is an end. */
const mostInGroup = 64;

interface Group {
  size: number;
  ended: Promise<void>;
  succeed(): void;
  fail(error: unknown): void;
}

/**
 * To sync the disk costs more than most transactions. So those that come in one turn of the event loop are one transaction
 * of the database, in which each has a savepoint of its own, and one commit ends them all. They see one another in their
 * order, as if each had been committed before the next; and nobody is told how their own ended before the commit: what
 * they saw, and were perhaps refused for, could be lost with it.
 */
export function createSharedWriter(database: Database, onCommit: () => void): SharedWriter {
  const takeTurn = createTurns();
  const statement = (text: string) => {
    const prepared = database.prepare(text);
    return () => prepared.run();
  };
  // The lock for writing is taken at once. All transactions write; one that had read first could find that another
  // process has written since, and would fail without anybody's fault.
  const beginNow = statement('begin immediate');
  const [commitAll, rollbackAll] = [statement('commit'), statement('rollback')];
  const open = statement('savepoint share');
  const release = statement('release share');
  const rollback = statement('rollback to share');
  let current: Group | undefined;

  function join(): Group {
    const group = current ?? newGroup();
    open();
    group.size += 1;
    return group;
  }

  function newGroup(): Group {
    beginNow();
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // Those who are told of a failure hear of it by their own wait; there may be nobody left.
    promise.catch(() => undefined);
    current = { size: 0, ended: promise, succeed: resolve, fail: reject };
    commitAfterOthers(current, 0);
    return current;
  }

  /** As long as every turn of the event loop brings somebody else, more may come; the rest is for those who wait. */
  function commitAfterOthers(group: Group, sizeBefore: number): void {
    setImmediate(() => {
      if (group.size > sizeBefore) commitAfterOthers(group, group.size);
      else commitInTurn(group);
    });
  }

  /** After whoever is writing now, and those who are waiting for their turn already. */
  async function commitInTurn(group: Group): Promise<void> {
    const endTurn = await takeTurn();
    if (group === current) commit();
    endTurn();
  }

  function commit(): void {
    if (current === undefined) return;
    const group = current;
    try {
      commitAll();
      current = undefined;
      group.succeed();
    } catch (error) {
      giveUp(error);
    }
    onCommit();
  }

  /** A full disk, for example, takes the whole transaction back, of all who are in it. */
  function giveUp(error: unknown): void {
    const group = current;
    current = undefined;
    if (database.inTransaction) rollbackAll();
    group?.fail(error);
  }

  return {
    async begin() {
      const endTurn = await takeTurn();
      try {
        const group = join();
        const end = async (how: () => void) => {
          try {
            how();
          } catch (error) {
            giveUp(error);
          }
          if (group.size >= mostInGroup) commit();
          endTurn();
          await group.ended;
        };
        return {
          keep: () => end(release),
          undo: () =>
            end(() => {
              rollback();
              release();
            }).catch(() => undefined),
        };
      } catch (error) {
        endTurn();
        throw error;
      }
    },

    async alone(work) {
      const endTurn = await takeTurn();
      try {
        commit();
        return work();
      } finally {
        onCommit();
        endTurn();
      }
    },

    close: commit,
  };
}

/** Gives turns, one at a time and in the order in which they were asked for. */
function createTurns(): () => Promise<() => void> {
  let last = Promise.resolve();
  return async () => {
    const before = last;
    const { promise, resolve } = Promise.withResolvers<void>();
    last = promise;
    await before;
    return resolve;
  };
}
