import { randomUUID } from 'node:crypto';
import { link, mkdir, open, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { systemErrorCode } from '../../domain/errors.ts';
import { syncFolder } from '../../files/sync-folder.ts';

/**
 * Writes a file that did not exist. True: it is there, complete, and survives a power cut. False: somebody was
 * first, and nothing has changed. After a failure or a crash the file is there completely or not at all.
 */
export async function writeOnce(path: string, content: string): Promise<boolean> {
  const temporary = await writeTemporary(path, content);
  try {
    await link(temporary, path);
  } catch (error) {
    if (systemErrorCode(error) === 'EEXIST') return false;
    throw error;
  } finally {
    await unlink(temporary).catch(() => {}); // a temporary file that stays is harmless
  }
  await syncFolder(dirname(path));
  return true;
}

/** Writes a file, in place of the one that is there if there is one: a reader sees the old one or the new one. */
export async function writeOver(path: string, content: string): Promise<void> {
  await rename(await writeTemporary(path, content), path);
  await syncFolder(dirname(path));
}

/**
 * Makes a folder with one file in it. Afterwards the folder is there durably: this one, or the one that was there
 * before. After a failure or a crash it is there with its file or not at all.
 */
export async function publishFolder(folder: string, file: string, content: string): Promise<void> {
  const parent = dirname(folder);
  const unpublished = join(parent, `${unpublishedPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    await mkdir(unpublished);
    await writeOnce(join(unpublished, file), content);
    await rename(unpublished, folder);
  } catch (error) {
    await rm(unpublished, { recursive: true, force: true });
    // A folder that is not empty is never replaced by `rename`.
    if (systemErrorCode(error) !== 'ENOTEMPTY' && systemErrorCode(error) !== 'EEXIST') throw error;
  }
  await syncFolder(parent);
}

/** Removes a folder so that nobody ever sees half of it. */
export async function retireFolder(folder: string): Promise<void> {
  const retired = join(dirname(folder), `${retiredPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    await rename(folder, retired);
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return;
    throw error;
  }
  await rm(retired, { recursive: true, force: true });
}

const unpublishedPrefix = '.new-';
const retiredPrefix = '.gone-';

/** True for the folders that a crash in `publishFolder` or `retireFolder` leaves behind. */
export function isLeftover(name: string): boolean {
  return name.startsWith(unpublishedPrefix) || name.startsWith(retiredPrefix);
}

/** The process that was writing a temporary file; null when the name is not that of a temporary file. */
export function writerOf(name: string): number | null {
  const pid = /\.(\d+)-[0-9a-f-]{36}\.tmp$/.exec(name)?.[1];
  return pid === undefined ? null : Number(pid);
}

async function writeTemporary(path: string, content: string): Promise<string> {
  const temporary = `${path}.${process.pid}-${randomUUID()}.tmp`;
  try {
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(content);
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  return temporary;
}
