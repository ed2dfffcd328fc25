import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../../domain/errors.ts';

/** The name of a backup in a folder of backups: the UTC time, so that names sort by age. */
export function backupName(now: number): string {
  const time = new Date(now).toISOString().replace(/\.\d+/, '').replace(/[-:]/g, '');
  return `bursar-${time}`;
}

/** `extension` is that of a file, such as `.db`, or empty for a folder. */
function isBackupName(name: string, extension: string): boolean {
  return /^bursar-\d{8}T\d{6}Z$/.test(name.slice(0, -extension.length || undefined)) && name.endsWith(extension);
}

/**
 * Removes all but the newest backups. Call it only after a new backup was completed and verified: so one that can be
 * restored always remains. Removes nothing whose name `backupName` did not make, except unfinished backups of such names.
 * Returns the names that were removed.
 */
export async function removeOldBackups(folder: string, keep: number, extension: string): Promise<string[]> {
  if (!Number.isInteger(keep) || keep < 1)
    throw new BursarError('invalid_argument', 'Give --keep the number of backups to keep, 1 or more.');
  const names = await readdir(folder);
  const backups = names.filter((name) => isBackupName(name, extension)).sort();
  const old = backups.slice(0, -keep);
  // A backup that was interrupted: its successor is complete.
  const newest = backups.at(-1) ?? '';
  const unfinished = names.filter(
    (name) => name.endsWith('.partial') && isBackupName(name.slice(0, -'.partial'.length), extension) && name < newest,
  );
  for (const name of [...old, ...unfinished]) await rm(join(folder, name), { recursive: true, force: true });
  return old;
}
