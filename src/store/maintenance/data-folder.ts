import { randomUUID } from 'node:crypto';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../database/handle.ts';

const fact = 'data_folder';

/**
 * Makes sure that whoever works with these books sees the same data folder: a zip that one Bursar stores is unpacked by
 * another. The folder and the books carry the same mark, which the first of them makes.
 */
export async function checkDataFolder(db: Db, dataFolder: string): Promise<void> {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const file = join(dataFolder, '.folder-id');
  const known = await markInBooks(db);
  if (known === undefined) {
    const mark = markIn(file) ?? makeMark(file);
    await db
      .insertInto('facts')
      .values({ name: fact, value: mark })
      .onConflict((conflict) => conflict.column('name').doNothing())
      .execute();
  }
  if (markIn(file) === (await markInBooks(db))) return;
  throw new BursarError(
    'invalid_config',
    `${dataFolder} is not the data folder that these books were made with. All Bursars on one database need the same ` +
      'folder, on a file system that they share: mount it here and name it with BURSAR_DATA. If the folder has been ' +
      `replaced for good, put the mark of the old one into ${file}: ${known}`,
  );
}

/** Lets the next Bursar that starts on these books bring a folder of its own. */
export async function clearDataFolderId(db: Db): Promise<void> {
  await db.deleteFrom('facts').where('name', '=', fact).execute();
}

async function markInBooks(db: Db): Promise<string | undefined> {
  const row = await db.selectFrom('facts').select('value').where('name', '=', fact).executeTakeFirst();
  return row?.value;
}

function markIn(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return undefined;
  }
}

/** Another Bursar may be starting at the same moment: the first mark counts. */
function makeMark(file: string): string {
  const mark = randomUUID();
  try {
    writeFileSync(file, `${mark}\n`, { flag: 'wx', mode: 0o600 });
    return mark;
  } catch (error) {
    const theirs = markIn(file);
    if (theirs === undefined || theirs === '') throw error;
    return theirs;
  }
}
