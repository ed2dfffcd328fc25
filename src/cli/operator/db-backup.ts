import { existsSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Config } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';
import { migrate } from '../../store/database/migrations.ts';
import { backupName, removeOldBackups } from '../../store/maintenance/backup-folder.ts';
import { createDataFolder } from '../../store/maintenance/data-folder.ts';
import { restoreSnapshot, takeSnapshot, verifySnapshot } from '../../store/maintenance/snapshot.ts';
import { withConnection, withServerExcluded } from './db-connection.ts';
import { printSnapshot } from './print-snapshot.ts';

/** The target of a backup: one path, or a folder of backups of which the last ones are kept. */
export interface BackupTarget {
  path?: string;
  folder?: string;
  keep?: string;
}

/** `db backup`: the database without files. A server may be running. */
export async function backUpDatabase(config: Config, options: BackupTarget & { verify: boolean }): Promise<void> {
  await backUpTo(options, '.db', async (file) => {
    // Older backups are removed only after this one was verified.
    const verify = options.verify || options.keep !== undefined;
    const snapshot = await withConnection(config, config.database.url, (db) => takeSnapshot(db, file, { verify }));
    return printSnapshot(`Backed up to ${file}`, snapshot) && printVerified(verify);
  });
}

/**
 * Determines the path of a new backup and has it written. Removes older backups of the folder if `write` returns true: the
 * new one is then complete and right.
 */
export async function backUpTo(
  { path, folder, keep }: BackupTarget,
  extension: string,
  write: (path: string) => Promise<boolean>,
): Promise<void> {
  if ((path === undefined) === (folder === undefined))
    throw new BursarError(
      'invalid_argument',
      'Name either a new file or folder, or a folder of backups with --folder.',
    );
  if (keep !== undefined && (folder === undefined || !/^[1-9]\d{0,3}$/.test(keep)))
    throw new BursarError('invalid_argument', 'Give --keep a number from 1 to 9999, together with --folder.');
  if (folder !== undefined) await mkdir(folder, { recursive: true, mode: 0o700 });
  const target = resolve(path ?? join(folder ?? '', `${backupName(Date.now())}${extension}`));
  if (existsSync(target)) throw new BursarError('conflict', `${target} already exists. Choose another file name.`);
  const isRight = await write(target);
  if (folder === undefined || keep === undefined || !isRight) return;
  const removed = await removeOldBackups(folder, Number(keep), extension);
  if (removed.length > 0) process.stdout.write(`Removed ${removed.length} older: ${removed.join(', ')}.\n`);
}

/** `db verify`: proves that a backup can be restored. The database in use is not touched. */
export async function verifyBackup(file: string): Promise<void> {
  const path = resolve(file);
  if (!existsSync(path)) throw new BursarError('not_found', `There is no file ${path}.`);
  printSnapshot(`Read ${file}`, await verifySnapshot(path));
  printVerified(true);
}

/** `db restore`. */
export async function restoreDatabase(config: Config, file: string): Promise<void> {
  const { url } = config.database;
  createDataFolder(resolve(config.data));
  await withServerExcluded(config, url, () => restoreFrom(config, file));
}

/** The caller excludes servers. */
export async function restoreFrom(config: Config, file: string): Promise<void> {
  const snapshot = await withConnection(config, config.database.url, async (db) => {
    await migrate(db);
    return await restoreSnapshot(resolve(file), db, resolve(config.data));
  });
  printSnapshot(`Restored from ${file}`, snapshot);
}

/** A copy that differs is an error, so that this is reached only if it does not. */
export function printVerified(isVerified: boolean): boolean {
  if (isVerified) process.stdout.write('Restored to a temporary database: every row is the same.\n');
  return true;
}
