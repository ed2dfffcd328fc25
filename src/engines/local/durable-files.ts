import { randomUUID } from 'node:crypto';
import { link, mkdir, open, rename, rm, unlink } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { errnoCode } from '../../domain/errors.ts';
import { syncFolder } from '../../files/sync-folder.ts';

/**
 * Writes a file that does not exist yet. Returns true if the file was written; it is complete and survives a power cut.
 * Returns false, and changes nothing, if the file already existed. After a failure or a crash the file is complete or
 * absent.
 */
export async function writeOnce(path: string, content: string): Promise<boolean> {
  const temporary = await writeTemporary(path, content);
  try {
    return await linkOnce(temporary, path);
  } finally {
    await removeTemporary(temporary);
  }
}

/** A file that will be written. Its disk space is allocated, so that it can be written when the disk is full. */
export interface ReservedFile {
  /** Like the function `writeOnce`. After a failure it can be repeated. */
  writeOnce(content: string): Promise<boolean>;
  /** Frees the space of a file that is not needed. Never throws. */
  discard(): Promise<void>;
}

/** The content is padded with spaces to `bytes`, which makes no difference to JSON. */
export async function reserveFile(path: string, bytes: number): Promise<ReservedFile> {
  const temporary = await writeTemporary(path, ' '.repeat(bytes));
  return {
    async writeOnce(content) {
      await overwrite(temporary, content.padEnd(bytes));
      const isWritten = await linkOnce(temporary, path);
      await removeTemporary(temporary);
      return isWritten;
    },
    discard: () => removeTemporary(temporary),
  };
}

async function linkOnce(temporary: string, path: string): Promise<boolean> {
  try {
    await link(temporary, path);
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false;
    throw error;
  }
  await syncFolder(dirname(path));
  return true;
}

/** A temporary file that is left over is harmless. */
async function removeTemporary(temporary: string): Promise<void> {
  await unlink(temporary).catch(() => {});
}

async function overwrite(path: string, content: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.write(content, 0);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Writes a file, or replaces it atomically: a reader sees the old content or the new content. */
export async function replaceFile(path: string, content: string): Promise<void> {
  await rename(await writeTemporary(path, content), path);
  await syncFolder(dirname(path));
}

/**
 * Creates a folder that contains one file. After success the folder exists durably: the new one, or the one that existed
 * before. After a failure or a crash the folder is absent, or contains its file.
 */
export async function publishFolder(folder: string, file: string, content: string): Promise<void> {
  const parent = dirname(folder);
  const newFolder = join(parent, `${newPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    await mkdir(newFolder);
    await writeOnce(join(newFolder, file), content);
    await rename(newFolder, folder);
  } catch (error) {
    await rm(newFolder, { recursive: true, force: true });
    // `rename` never replaces a folder that is not empty.
    if (errnoCode(error) !== 'ENOTEMPTY' && errnoCode(error) !== 'EEXIST') throw error;
  }
  await syncFolder(parent);
}

/** Removes a folder atomically: no reader sees it with only some of its files. */
export async function removeFolder(folder: string): Promise<void> {
  const removed = join(dirname(folder), `${removedPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    await rename(folder, removed);
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return;
    throw error;
  }
  await rm(removed, { recursive: true, force: true });
}

const newPrefix = '.new-';
const removedPrefix = '.gone-';

/** True for a folder that a crash in `publishFolder` or `removeFolder` left behind. */
export function isLeftover(name: string): boolean {
  return name.startsWith(newPrefix) || name.startsWith(removedPrefix);
}

/** Returns the pid of the process that wrote a temporary file; null if the name is not that of a temporary file. */
export function parseWriterPid(name: string): number | null {
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
