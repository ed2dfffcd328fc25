import { readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BursarError } from '../../domain/errors.ts';
import { msPerDay } from '../../domain/units.ts';

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
 * Removes all but the newest backups. `newest` is the name of a backup that was just completed and verified: it always
 * remains, even if the clock was wrong before and a backup has a later name. Such ones are neither counted nor removed. Removes
 * nothing whose name `backupName` did not make, except unfinished backups of such names. Returns the names that were removed.
 */
export async function removeOldBackups(
  folder: string,
  { newest, keep, extension }: { newest: string; keep: number; extension: string },
): Promise<string[]> {
  if (!Number.isInteger(keep) || keep < 1)
    throw new BursarError('invalid_argument', 'Give --keep the number of backups to keep, 1 or more.');
  const names = await readdir(folder);
  const backups = names.filter((name) => isBackupName(name, extension) && name <= newest).sort();
  const old = backups.slice(0, -keep);
  for (const name of [...old, ...(await listAbandoned(folder, names, extension))])
    await rm(join(folder, name), { recursive: true, force: true });
  return old;
}

/** Backups that were interrupted. Another backup may be running: only those that nobody has written to for a day. */
async function listAbandoned(folder: string, names: readonly string[], extension: string): Promise<string[]> {
  const suffix = '.partial';
  const abandoned: string[] = [];
  for (const name of names) {
    if (!name.endsWith(suffix) || !isBackupName(name.slice(0, -suffix.length), extension)) continue;
    const { mtimeMs } = await stat(join(folder, name)).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > msPerDay) abandoned.push(name);
  }
  return abandoned;
}
