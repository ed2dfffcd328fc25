import { join } from 'node:path';
import Sqlite, { type Database } from 'better-sqlite3';
import { BursarError, errnoCode } from '../../domain/errors.ts';
import { createDataFolder, lockFileName } from './data-folder.ts';

/**
 * Locks a data folder for one server: two would run each other's jobs. The lock is an exclusive SQLite transaction on a
 * separate file. The kernel releases it when the process ends in any way, so that a restart after SIGKILL need not wait
 * for a timeout. Returns a function that unlocks the folder.
 */
export function lockDataFolder(dataFolder: string): () => void {
  createDataFolder(dataFolder);
  const file = join(dataFolder, lockFileName);
  let database: Database | undefined;
  try {
    database = new Sqlite(file, { timeout: 2000 });
    database.exec('begin exclusive');
  } catch (cause) {
    database?.close();
    if (errnoCode(cause) !== 'SQLITE_BUSY') {
      const message = `Cannot lock ${file}: ${(cause as Error).message}. Check that Bursar may write to this file.`;
      throw new BursarError('invalid_config', message, { cause });
    }
    throw new BursarError(
      'data_in_use',
      `Another Bursar server uses ${dataFolder}. Stop it first, or choose another folder with BURSAR_DATA.`,
      { cause },
    );
  }
  return () => void database.close();
}
