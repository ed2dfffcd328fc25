import type { Database } from 'better-sqlite3';
import type { Db } from './tables.ts';

type Rows = readonly unknown[];

/** What was read from the books, for as long as nobody has written to them since, in whichever process. */
export interface Memo {
  /** A number that is another one after every commit. What is put in was read after it was asked for. */
  version(): unknown;
  get(version: unknown, key: string): Rows | undefined;
  put(version: unknown, key: string, rows: Rows): void;
}

const memos = new WeakMap<Db, Memo>();
const mostKept = 2000;

/**
 * On SQLite, to ask whether anything has changed costs a fraction of any query, and it is asked once for all that comes in
 * one turn of the event loop. Answers with what is to be called when this process itself has committed.
 */
export function rememberReads(db: Db, reader: Database): () => void {
  const dataVersion = reader.prepare('pragma data_version').pluck();
  const kept = new Map<string, Rows>();
  let current: unknown;
  let isAsked = false;
  const askAgain = () => {
    isAsked = false;
  };
  memos.set(db, {
    version() {
      if (isAsked) return current;
      const version = dataVersion.get();
      if (version !== current) kept.clear();
      current = version;
      isAsked = true;
      setImmediate(askAgain);
      return version;
    },
    get: (version, key) => (version === current ? kept.get(key) : undefined),
    put(version, key, rows) {
      if (version !== current || !isSmall(rows)) return;
      if (kept.size >= mostKept) kept.clear();
      kept.set(key, rows);
    },
  });
  return askAgain;
}

/** What takes room, such as a page of a list, is rather read again than kept. */
function isSmall(rows: Rows): boolean {
  const isShort = (value: unknown) => typeof value !== 'string' || value.length <= 2000;
  return rows.length <= 50 && rows.every((row) => Object.values(row as object).every(isShort));
}

/** Undefined for a transaction, which sees what nobody else does, and for databases that cannot tell of changes. */
export function memoOf(db: Db): Memo | undefined {
  return memos.get(db);
}

/** Gives another value after every commit, by whomever; undefined for databases that cannot tell of changes. */
export function booksVersionOf(db: Db): (() => unknown) | undefined {
  return memos.get(db)?.version;
}

/** The same read again and again, of more than the memo keeps: it is repeated only when somebody has written since. */
export function whenChanged<T>(db: Db, read: () => Promise<T>): () => Promise<T> {
  const version = booksVersionOf(db);
  if (version === undefined) return read;
  let last: { version: unknown; answer: T } | undefined;
  return async () => {
    // Asked for before the read: what is committed in between is read again, and never missed.
    const current = version();
    if (last === undefined || last.version !== current) last = { version: current, answer: await read() };
    return last.answer;
  };
}
