import { randomUUID } from 'node:crypto';
import {
  closeSync,
  fsync,
  linkSync,
  mkdirSync,
  openSync,
  renameSync,
  rmSync,
  unlinkSync,
  writeFileSync,
} from 'node:fs';
import { rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { BursarError, errnoCode } from '../../domain/errors.ts';
import { toFileSystemError } from '../../files/file-system-errors.ts';
import { syncFolder } from '../../files/sync-folder.ts';

/*
 * Only what waits for the disk is asynchronous. The other calls take ten microseconds, and ten times as much CPU time in the
 * thread pool.
 */

const fsyncAsync = promisify(fsync);

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
    removeTemporary(temporary);
  }
}

/** A file that will be written. Its disk space is allocated, so that it can be written when the disk is full. */
export interface ReservedFile {
  /** Like the function `writeOnce`. After a failure it can be repeated. */
  writeOnce(content: string): Promise<boolean>;
  /** Frees the space of a file that is not needed. Never throws. */
  discard(): void;
}

/** The content is padded with spaces to `bytes`, which makes no difference to JSON. */
export async function reserveFile(path: string, bytes: number): Promise<ReservedFile> {
  const temporary = await writeTemporary(path, ' '.repeat(bytes));
  return {
    async writeOnce(content) {
      await writeDurably(temporary, 'r+', content.padEnd(bytes));
      const isWritten = await linkOnce(temporary, path);
      removeTemporary(temporary);
      return isWritten;
    },
    discard: () => removeTemporary(temporary),
  };
}

async function linkOnce(temporary: string, path: string): Promise<boolean> {
  try {
    linkSync(temporary, path);
  } catch (error) {
    if (errnoCode(error) === 'EEXIST') return false;
    throw error;
  }
  await syncFolder(dirname(path));
  return true;
}

/** A temporary file that is left over is harmless. */
function removeTemporary(temporary: string): void {
  try {
    unlinkSync(temporary);
  } catch {
    // It is gone already, or the disk is read-only.
  }
}

/** Writes a file, or replaces it atomically: a reader sees the old content or the new content. */
export async function replaceFile(path: string, content: string): Promise<void> {
  renameSync(await writeTemporary(path, content), path);
  await syncFolder(dirname(path));
}

/** The same, but a power failure can undo it, or leave the file damaged. */
export function replaceFileUnsynced(path: string, content: string): void {
  const temporary = temporaryName(path);
  writeFileSync(temporary, content, newFile);
  renameSync(temporary, path);
}

/**
 * Creates a folder that contains one file. After success the folder exists durably: the new one, or the one that existed
 * before. After a failure or a crash the folder is absent, or contains its file.
 */
export async function publishFolder(folder: string, file: string, content: string): Promise<void> {
  const parent = dirname(folder);
  const newFolder = join(parent, `${newPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    mkdirSync(newFolder);
    await writeDurably(join(newFolder, file), 'wx', content);
    await syncFolder(newFolder);
    renameSync(newFolder, folder);
  } catch (error) {
    rmSync(newFolder, { recursive: true, force: true });
    // `rename` never replaces a folder that is not empty.
    if (errnoCode(error) !== 'ENOTEMPTY' && errnoCode(error) !== 'EEXIST') throw error;
  }
  await syncFolder(parent);
}

/**
 * Removes a folder atomically: no reader sees it with only some of its files. They are deleted in the thread pool, because
 * deletions wait while the file system syncs other files.
 */
export async function removeFolder(folder: string): Promise<void> {
  const removed = join(dirname(folder), `${removedPrefix}${basename(folder)}-${randomUUID()}`);
  try {
    renameSync(folder, removed);
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

const temporaryName = (path: string) => `${path}.${process.pid}-${randomUUID()}.tmp`;
const newFile = { flag: 'wx', mode: 0o600 } as const;

async function writeTemporary(path: string, content: string): Promise<string> {
  const temporary = temporaryName(path);
  try {
    await writeDurably(temporary, newFile.flag, content);
  } catch (error) {
    removeTemporary(temporary);
    throw error;
  }
  return temporary;
}

async function writeDurably(path: string, flags: 'wx' | 'r+', content: string): Promise<void> {
  const file = openSync(path, flags, newFile.mode);
  try {
    writeFileSync(file, content);
    await fsyncAsync(file);
  } finally {
    closeSync(file);
  }
}

export const diskRetryMs = 1000;

/** Whether the disk is full or read-only: a condition that ends when the operator corrects it. */
export function isDiskRefusal(error: unknown): boolean {
  const translated = toFileSystemError('write', error);
  return translated instanceof BursarError && translated.code === 'storage_unavailable';
}

/**
 * Repeats `work` while the disk refuses writes, at most `maxAttempts` times. Returns undefined if the disk still does so
 * when `isCancelled`.
 */
export async function retryWhileDiskRefuses<T>(
  work: () => Promise<T>,
  maxAttempts: number,
  isCancelled: () => boolean,
): Promise<T | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isDiskRefusal(error) || attempt === maxAttempts) throw error;
      if (isCancelled()) return undefined;
      await sleep(diskRetryMs);
    }
  }
}
