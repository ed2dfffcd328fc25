import { type BigIntStats, constants } from 'node:fs';
import { type FileHandle, lstat, open } from 'node:fs/promises';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
/** Errors of opening a path that does not exist, must not be read, or has another type than expected. */
const absentCodes = new Set([
  'EACCES',
  'EISDIR',
  'ELOOP',
  'EMLINK',
  'ENAMETOOLONG',
  'ENODEV',
  'ENOENT',
  'ENOTDIR',
  'ENXIO',
  'EOPNOTSUPP',
  'EPERM',
  'ESTALE',
]);

export type FileName = string | Buffer;

/**
 * Opens a folder below `root`, name by name. A job can put a link in the place of a folder at any moment, also between
 * a check of a path and its use, so no path of more than one name is ever given to the system: each name is looked up in
 * the folder that is already open, and no link is followed. Returns undefined if there is no such folder.
 */
export async function openFolder(root: string, names: readonly FileName[]): Promise<FileHandle | undefined> {
  let folder = await undefinedIfAbsent(open(root, O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
  for (const name of names) {
    if (folder === undefined) return undefined;
    const parent: FileHandle = folder;
    try {
      folder = await undefinedIfAbsent(open(await pathIn(parent, name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW));
    } finally {
      await parent.close();
    }
  }
  return folder;
}

/**
 * Opens a regular file in an open folder. Opening a device can have side effects, and opening a pipe can block forever,
 * so neither is opened. If one is put there between the check and the open, O_NONBLOCK prevents blocking.
 */
export async function openRegularFile(
  folder: FileHandle,
  name: FileName,
): Promise<{ handle: FileHandle; stats: BigIntStats } | undefined> {
  const path = await pathIn(folder, name);
  if (!(await undefinedIfAbsent(lstat(path)))?.isFile()) return undefined;
  const handle = await undefinedIfAbsent(open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (handle === undefined) return undefined;
  try {
    const stats = await handle.stat({ bigint: true });
    if (stats.isFile()) return { handle, stats };
  } catch (error) {
    await handle.close();
    throw toFileSystemError('read the files of a job', error);
  }
  await handle.close();
  return undefined;
}

/**
 * Returns a path that leads to an open folder even after its name has changed. It replaces openat(2), which Node does
 * not have. macOS finds a folder by its inode number instead.
 */
export async function pathOfHandle(folder: FileHandle): Promise<string> {
  if (process.platform === 'linux') return `/proc/self/fd/${folder.fd}`;
  const { dev, ino } = await folder.stat({ bigint: true });
  return `/.vol/${dev}/${ino}`;
}

async function pathIn(folder: FileHandle, name: FileName): Promise<Buffer> {
  return Buffer.concat([Buffer.from(`${await pathOfHandle(folder)}/`), Buffer.from(name)]);
}

/** Returns the result, or undefined if the file does not exist or must not be read. */
export async function undefinedIfAbsent<T>(result: Promise<T>): Promise<T | undefined> {
  try {
    return await result;
  } catch (error) {
    if (absentCodes.has(fileSystemErrorCode(error) ?? '')) return undefined;
    throw toFileSystemError('read the files of a job', error);
  }
}
