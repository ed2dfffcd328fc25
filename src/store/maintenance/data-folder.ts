import { randomUUID } from 'node:crypto';
import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import Sqlite, { type Database } from 'better-sqlite3';
import { isOpenToOthers } from '../../config/private-file.ts';
import { BursarError, errnoCode } from '../../domain/errors.ts';
import type { Db } from '../database/handle.ts';

const settingName = 'data_folder';
const folderIdName = '.folder-id';
export const lockFileName = 'server.lock';

/**
 * Creates the folder if it does not exist, and closes it to other users: it holds the database, the files of all jobs and
 * keys of ssh connections. Returns whether other users could enter it before. Throws an error that says what to do unless
 * files can be created in it.
 */
export function createDataFolder(dataFolder: string): boolean {
  try {
    mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
    accessSync(dataFolder, constants.R_OK | constants.W_OK | constants.X_OK);
  } catch (cause) {
    throw new BursarError(
      'invalid_config',
      `Cannot write to the data folder ${dataFolder} (${errnoCode(cause)}). Give the user that Bursar runs as write ` +
        'permission on it, or choose another folder with BURSAR_DATA.',
      { cause },
    );
  }
  return closeToOthers(dataFolder);
}

/**
 * A folder that another program uses too, such as /var/lib, is not changed but refused, as is one that belongs to another
 * user. Only permissions of a group remain in that case: the owner of a mounted volume gives access so.
 */
function closeToOthers(dataFolder: string): boolean {
  const { mode, uid } = statSync(dataFolder);
  if ((mode & 0o077) === 0) return false;
  const isOwn = uid === process.geteuid?.() && isOnlyForBursar(dataFolder);
  if (isOwn) {
    chmodSync(dataFolder, 0o700);
    return true;
  }
  if (!isOpenToOthers(mode)) return false;
  throw new BursarError(
    'invalid_config',
    `Other users of this host can enter the data folder ${dataFolder}. Run "chmod o-rwx" on it, or choose a folder of ` +
      'its own with BURSAR_DATA.',
  );
}

/** Whether the folder is empty, as a new volume is, or has files that only Bursar creates. */
function isOnlyForBursar(dataFolder: string): boolean {
  const names = readdirSync(dataFolder).filter((name) => name !== 'lost+found');
  return names.length === 0 || names.some((name) => [lockFileName, folderIdName, 'bursar.db'].includes(name));
}

/**
 * Makes sure that all instances on one database use the same data folder: a zip that one instance stores is unpacked by
 * another. The folder and the database contain the same id, which the first instance creates.
 */
export async function checkDataFolder(db: Db, dataFolder: string): Promise<void> {
  createDataFolder(dataFolder);
  const file = join(dataFolder, folderIdName);
  let storedId = await findStoredId(db);
  if (storedId === undefined) {
    const value = readFolderId(file) ?? createFolderId(file);
    await db
      .insertInto('settings')
      .values({ name: settingName, value })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
    // Another instance may have inserted its id first.
    storedId = await findStoredId(db);
  }
  if (readFolderId(file) === storedId) return;
  throw new BursarError(
    'invalid_config',
    `${dataFolder} is not the data folder of this database. All instances on one database need the same folder, on a ` +
      'shared file system: mount it here and set BURSAR_DATA to it. If the old folder was replaced on purpose, write ' +
      `the id of the old one into ${file}: ${storedId}`,
  );
}

/** Lets the next instance that starts on this database use another data folder. */
export async function clearDataFolderId(db: Db): Promise<void> {
  await db.deleteFrom('settings').where('name', '=', settingName).execute();
}

async function findStoredId(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('settings').select('value').where('name', '=', settingName).executeTakeFirst();
  return row?.value;
}

function readFolderId(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Another instance may be starting at the same time: the id that is written first is used. */
function createFolderId(file: string): string {
  const id = randomUUID();
  try {
    writeFileSync(file, `${id}\n`, { flag: 'wx', mode: 0o600 });
    return id;
  } catch (error) {
    const existingId = readFolderId(file);
    if (existingId === undefined || existingId === '') throw error;
    return existingId;
  }
}

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
