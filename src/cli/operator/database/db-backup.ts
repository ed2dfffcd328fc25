import { existsSync } from 'node:fs';
import { access, constants, mkdir, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { BursarError, errnoCode } from '../../../domain/errors.ts';
import { migrate } from '../../../store/database/migrations.ts';
import { backupName, removeOldBackups } from '../../../store/maintenance/backup-folder.ts';
import { createDataFolder } from '../../../store/maintenance/data-folder.ts';
import { restoreSnapshot, takeSnapshot, verifySnapshot } from '../../../store/maintenance/snapshot.ts';
import type { CommandOutput, OperatorContext } from '../operator.ts';
import { requireDatabase, withConnection, withServerExcluded } from './db-connection.ts';
import { printSnapshot } from './print-snapshot.ts';

/** The target of a backup: one path, or a folder of backups of which the last ones are kept. */
export interface BackupTarget {
  path?: string;
  folder?: string;
  keep?: string;
}

/** `db backup`: the database without files. A server may be running. */
export async function backUpDatabase(
  context: OperatorContext,
  options: BackupTarget & { verify: boolean },
): Promise<void> {
  const { config } = context;
  requireDatabase(config, config.database.url);
  await backUpTo(context, options, '.db', async (file) => {
    // Older backups are removed only after this one was verified.
    const verify = options.verify || options.keep !== undefined;
    const snapshot = await withConnection(config, config.database.url, (db) => takeSnapshot(db, file, { verify }));
    return printSnapshot(context, `Backed up to ${file}`, snapshot) && printVerified(context, verify);
  });
}

/**
 * Determines the path of a new backup and has it written. Removes older backups of the folder if `write` returns true: the
 * new one is then complete and right.
 */
export async function backUpTo(
  { print }: CommandOutput,
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
  if (folder !== undefined) await createBackupFolder(folder);
  const target = resolve(path ?? join(folder ?? '', `${backupName(Date.now())}${extension}`));
  if (existsSync(target)) throw new BursarError('conflict', `${target} already exists. Choose another file name.`);
  await requireWritable(dirname(target));
  const isRight = await write(target);
  if (folder === undefined || keep === undefined || !isRight) return;
  const removed = await removeOldBackups(folder, { newest: basename(target), keep: Number(keep), extension });
  if (removed.length > 0) print(`Removed ${removed.length} older: ${removed.join(', ')}.\n`);
}

async function createBackupFolder(folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 }).catch((cause) => {
    const message = `Cannot create the folder ${folder || "''"} for backups (${errnoCode(cause)}). Choose another one.`;
    throw new BursarError('invalid_argument', message, { cause });
  });
}

async function requireWritable(folder: string): Promise<void> {
  const isFolder = await stat(folder).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  if (!isFolder) throw new BursarError('not_found', `There is no folder ${folder}. Create it, or choose another one.`);
  await access(folder, constants.W_OK).catch((cause) => {
    const message = `Cannot write to the folder ${folder} (${errnoCode(cause)}). Choose another one.`;
    throw new BursarError('invalid_argument', message, { cause });
  });
}

/** `db verify`: proves that a backup can be restored. The database in use is not touched. */
export async function verifyBackup(output: CommandOutput, file: string): Promise<void> {
  const path = await requireFile(file);
  printSnapshot(output, `Read ${file}`, await verifySnapshot(path));
  printVerified(output, true);
}

async function requireFile(file: string): Promise<string> {
  const path = resolve(file);
  const stats = await stat(path).catch(() => undefined);
  if (stats === undefined) throw new BursarError('not_found', `There is no file ${path}.`);
  if (!stats.isDirectory()) return path;
  const message = `${path} is a folder. Name a file that "bursar db backup" wrote, such as bursar.db in a folder of "bursar backup".`;
  throw new BursarError('invalid_argument', message);
}

/** `db restore`. */
export async function restoreDatabase(context: OperatorContext, file: string): Promise<void> {
  const { config } = context;
  const path = await requireFile(file);
  createDataFolder(resolve(config.data));
  await withServerExcluded(config, config.database.url, () => restoreFrom(context, path));
}

/** The caller excludes servers. */
export async function restoreFrom(context: OperatorContext, file: string): Promise<void> {
  const { config } = context;
  const snapshot = await withConnection(config, config.database.url, async (db) => {
    await migrate(db);
    return await restoreSnapshot(resolve(file), db, resolve(config.data));
  });
  printSnapshot(context, `Restored from ${file}`, snapshot);
}

/** A copy that differs is an error, so that this is reached only if it does not. */
export function printVerified({ print }: CommandOutput, isVerified: boolean): boolean {
  if (isVerified) print('Restored to a temporary database: every row is the same.\n');
  return true;
}
