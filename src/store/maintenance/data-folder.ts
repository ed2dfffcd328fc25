import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BursarError, errnoCode } from '../../domain/errors.ts';
import type { Db } from '../database/handle.ts';

const factName = 'data_folder';

/** Creates the folder if it does not exist. Throws an error that says what to do unless files can be created in it. */
export function createDataFolder(dataFolder: string): void {
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
}

/**
 * Makes sure that all instances on one database use the same data folder: a zip that one instance stores is unpacked by
 * another. The folder and the database contain the same id, which the first instance creates.
 */
export async function checkDataFolder(db: Db, dataFolder: string): Promise<void> {
  createDataFolder(dataFolder);
  const file = join(dataFolder, '.folder-id');
  let storedId = await findStoredId(db);
  if (storedId === undefined) {
    const value = readFolderId(file) ?? createFolderId(file);
    await db
      .insertInto('facts')
      .values({ name: factName, value })
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
  await db.deleteFrom('facts').where('name', '=', factName).execute();
}

async function findStoredId(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('facts').select('value').where('name', '=', factName).executeTakeFirst();
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
