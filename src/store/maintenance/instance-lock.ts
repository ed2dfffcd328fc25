import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import Sqlite from 'better-sqlite3';
import { BursarError } from '../../domain/errors.ts';

/**
 * Makes sure that one server at a time works on a data folder: two would run each other's jobs. The lock is an
 * exclusive transaction on a file of its own, which the kernel ends with the process, however it ends; so a
 * restart after a SIGKILL need not wait for anything to time out.
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
      `Another Bursar is serving from ${dataFolder}. Stop it first, or choose another folder with BURSAR_DATA.`,
      { cause },
    );
  }
  return () => database.close();
}
