import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { BursarError } from '../../domain/errors.ts';

/**
 * Locks a data folder for one server: two would run each other's jobs. The lock is an exclusive SQLite transaction on a
 * separate file. The kernel releases it when the process ends in any way, so that a restart after SIGKILL need not wait
 * for a timeout. Returns a function that unlocks the folder.
 */
export function lockDataFolder(dataFolder: string): () => void {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const database = new Sqlite(join(dataFolder, 'server.lock'), { timeout: 2000 });
  try {
    database.exec('begin exclusive');
  } catch (cause) {
    database.close();
    throw new BursarError(
      'data_in_use',
      `Another Bursar server uses ${dataFolder}. Stop it first, or choose another folder with BURSAR_DATA.`,
      { cause },
    );
  }
  return () => database.close();
}
