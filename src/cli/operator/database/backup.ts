import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { BursarError, errnoCode } from '../../../domain/errors.ts';
import { copyDurably, hashFile, zipPath } from '../../../files/spool/copy-spool.ts';
import { createSpool, spoolFolder } from '../../../files/spool/spool.ts';
import { syncFolder } from '../../../files/sync-folder.ts';
import { createDataFolder } from '../../../store/maintenance/data-folder.ts';
import { verifySnapshot } from '../../../store/maintenance/snapshot.ts';
import type { OperatorContext } from '../operator.ts';
import { collectBackup } from './collect-backup.ts';
import { type BackupTarget, backUpTo, printVerified, restoreFrom } from './db-backup.ts';
import { requireDatabase, withConnection, withServerExcluded } from './db-connection.ts';
import { printSnapshot } from './print-snapshot.ts';

/** The files of a backup: a snapshot of the database, the zips of waiting jobs, and the hashes of both. */
const databaseName = 'bursar.db';
const zipFolderName = 'spool';
const hashesName = 'SHA256SUMS';

/** `bursar backup`: everything that jobs which have not started need. A server may be running. */
export async function backUp(context: OperatorContext, options: BackupTarget): Promise<void> {
  const { config } = context;
  requireDatabase(config, config.database.url);
  await backUpTo(context, options, '', async (folder) => {
    const partial = `${folder}.partial`;
    await createPartial(partial);
    try {
      const file = join(partial, databaseName);
      const zipFolder = join(partial, zipFolderName);
      const zips = await withConnection(config, config.database.url, (db) =>
        collectBackup(db, createSpool(spoolFolder(resolve(config.data))), {
          dataFolder: resolve(config.data),
          file,
          zipFolder,
        }),
      );
      const snapshot = await verifySnapshot(file);
      await writeHashes(partial, [databaseName, ...zips.map((jobId) => zipPath(zipFolderName, jobId))]);
      await rename(partial, folder);
      await syncFolder(join(folder, '..'));
      const isRight = printSnapshot(context, `Backed up to ${folder} (zips of waiting jobs: ${zips.length})`, snapshot);
      printVerified(context, true);
      return isRight;
    } catch (error) {
      await rm(partial, { recursive: true, force: true });
      throw error;
    }
  });
}

/** Two backups to the same folder must not mix. */
async function createPartial(partial: string): Promise<void> {
  await mkdir(partial, { mode: 0o700 }).catch((cause) => {
    if (errnoCode(cause) !== 'EEXIST') throw cause;
    const message = `${partial} exists: another backup is being written, or one was interrupted. Then remove this folder.`;
    throw new BursarError('conflict', message, { cause });
  });
}

/**
 * `bursar restore`: to an empty database. The zips are copied first: a job in the database has its zip then, and a zip
 * without a job is harmless. After a failure the command can be repeated.
 */
export async function restore(context: OperatorContext, folder: string): Promise<void> {
  const { config } = context;
  const dataFolder = resolve(config.data);
  createDataFolder(dataFolder);
  const zips = await checkHashes(folder);
  await withServerExcluded(config, config.database.url, async () => {
    for (const name of zips) await copyDurably(join(folder, zipFolderName, name), spoolFolder(dataFolder), name);
    await restoreFrom(context, join(folder, databaseName));
  });
  context.print(`Zips of waiting jobs: ${zips.length}.\n`);
}

/** The format of `sha256sum`, so that a backup can be checked without Bursar. The file is written last. */
async function writeHashes(folder: string, names: readonly string[]): Promise<void> {
  const lines: string[] = [];
  for (const name of names) lines.push(`${await hashFile(join(folder, name))}  ${name}\n`);
  await writeFile(join(folder, hashesName), lines.join(''), { mode: 0o600, flush: true });
  await syncFolder(folder);
}

/** Compares all files with their hashes. Returns the names of the zips. */
async function checkHashes(folder: string): Promise<string[]> {
  const text = await readFile(join(folder, hashesName), 'utf8').catch((cause) => {
    const message = `${folder} is not a backup: it has no file ${hashesName}. Name a folder that "bursar backup" wrote.`;
    throw new BursarError('invalid_argument', message, { cause });
  });
  const zips: string[] = [];
  for (const line of text.split('\n').filter((line) => line !== '')) {
    const [, hash, name = '', zip] = /^([0-9a-f]{64}) {2}(bursar\.db|spool\/([A-Z0-9_-]+\.zip))$/.exec(line) ?? [];
    const found = hash === undefined ? undefined : await hashFile(join(folder, name)).catch(() => undefined);
    if (hash === undefined || found !== hash) {
      const message = `The backup ${folder} is damaged: ${name || hashesName} is missing or was changed. Use another backup.`;
      throw new BursarError('invalid_argument', message);
    }
    if (zip !== undefined) zips.push(zip);
  }
  // A list that was cut off would restore jobs without their zips.
  const copied = await readdir(join(folder, zipFolderName)).catch(() => []);
  if (!text.includes(`  ${databaseName}\n`) || copied.some((name) => !zips.includes(name))) {
    const message = `The backup ${folder} is damaged: ${hashesName} does not list all of its files. Use another backup.`;
    throw new BursarError('invalid_argument', message);
  }
  return zips;
}
