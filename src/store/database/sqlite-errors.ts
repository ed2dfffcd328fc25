import Sqlite from 'better-sqlite3';
import { BursarError, storageUnavailable } from '../../domain/errors.ts';

/** SQLite could not write: certainly nothing was committed. */
const refusedWrites = ['SQLITE_FULL', 'SQLITE_IOERR_WRITE', 'SQLITE_READONLY', 'SQLITE_CANTOPEN'];
/** The disk failed otherwise. If that happened during a commit, such as in its fsync, the result is unknown. */
const diskErrors = ['SQLITE_IOERR'];
/** Another process holds the database, or memory is short. Nothing was committed. */
const transientErrors = ['SQLITE_BUSY', 'SQLITE_LOCKED', 'SQLITE_PROTOCOL', 'SQLITE_NOMEM'];

/** Turns transient errors of SQLite into BursarErrors and leaves all others unchanged. */
export function toBursarError(error: unknown): unknown {
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
