import type { Database } from 'better-sqlite3';
import { withBursarErrors } from './sqlite-errors.ts';

/** A value that changes with every commit to a SQLite file, by any process. */
export interface CommitVersion {
  read(): unknown;
  /** Call it after each commit of this process. */
  reset(): void;
}

/**
 * Reads the version once in each turn of the event loop, because `pragma data_version` takes longer than looking up a
 * cached response. Requests that are read in one turn arrived before the version was read, so none of them follows a
 * commit of another process that the version misses.
 */
export function createCommitVersion(reader: Database): CommitVersion {
  const dataVersion = reader.prepare('pragma data_version').pluck();
  let current: { value: unknown } | undefined;
  const reset = () => {
    current = undefined;
  };
  return {
    read() {
      if (current === undefined) {
        current = { value: withBursarErrors(() => dataVersion.get()) };
        setImmediate(reset);
      }
      return current.value;
    },
    reset,
  };
}
