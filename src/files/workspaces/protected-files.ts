import { type BigIntStats, statSync } from 'node:fs';

/**
 * Returns a function that tells whether a file is one of these, whatever its name in a workspace is. A job can create a
 * hard link to a file that it can reach. The files of SQLite must not even be opened: closing any descriptor of a file
 * drops all locks that the process has on it, and other processes then write to the database at the same time.
 *
 * The paths are not opened either. They are looked up each time, because SQLite can create a file again.
 */
export function createProtection(paths: readonly string[]): (stats: BigIntStats) => boolean {
  return ({ dev, ino }) =>
    paths.some((path) => {
      const stats = statSync(path, { bigint: true, throwIfNoEntry: false });
      return stats?.ino === ino && stats.dev === dev;
    });
}
