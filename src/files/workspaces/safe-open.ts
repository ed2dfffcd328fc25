import { type BigIntStats, constants } from 'node:fs';
import { chmod, type FileHandle, lchmod, lstat, open } from 'node:fs/promises';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';

const { O_RDONLY, O_DIRECTORY, O_NOFOLLOW, O_NONBLOCK, O_NOCTTY } = constants;
/** Linux has this flag on all platforms of Node, which has no name for it. */
const O_PATH = 0o10000000;
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

/** Opens a folder by its path, and not a link to one. */
export type OpenFolderPath = (path: FileName) => Promise<FileHandle>;
export const openFolderPath: OpenFolderPath = (path) => open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);

/**
 * Opens a folder below `root`, name by name. A job can put a link in the place of a folder at any moment, also between
 * a check of a path and its use, so no path of more than one name is ever given to the system: each name is looked up in
 * the folder that is already open, and no link is followed. Returns undefined if there is no such folder.
 */
export async function openFolder(
  root: string,
  names: readonly FileName[],
  openPath = openFolderPath,
): Promise<FileHandle | undefined> {
  let folder = await undefinedIfAbsent(openPath(root));
  for (const name of names) {
    if (folder === undefined) return undefined;
    const parent: FileHandle = folder;
    folder = await openSubfolder(parent, name, openPath).finally(() => parent.close());
  }
  return folder;
}

/** Opens a folder in an open folder. Returns undefined if there is none of this name. */
export async function openSubfolder(
  parent: FileHandle,
  name: FileName,
  openPath = openFolderPath,
): Promise<FileHandle | undefined> {
  return await undefinedIfAbsent(openPath(await pathIn(parent, name)));
}

/**
 * Opens a regular file in an open folder, if `mayOpen` allows it. It is asked before the file is opened, because opening
 * alone can do harm: a device can react, a pipe can block forever, and closing a file of SQLite drops the locks that this
 * process has on it. On Linux the inode that was checked is the one that is opened. Elsewhere another process can replace
 * the file between the check and the open; O_NONBLOCK then prevents blocking.
 */
export async function openRegularFile(
  folder: FileHandle,
  name: FileName,
  mayOpen: (stats: BigIntStats) => Promise<boolean>,
): Promise<{ handle: FileHandle; stats: BigIntStats } | undefined> {
  const path = await pathIn(folder, name);
  if (process.platform !== 'linux') {
    const stats = await undefinedIfAbsent(lstat(path, { bigint: true }));
    return stats?.isFile() && (await mayOpen(stats)) ? await openForReading(path, O_NOFOLLOW) : undefined;
  }
  const inode = await undefinedIfAbsent(openInode(path));
  if (inode === undefined) return undefined;
  try {
    const stats = await inode.stat({ bigint: true });
    return stats.isFile() && (await mayOpen(stats)) ? await openForReading(await pathOfHandle(inode), 0) : undefined;
  } finally {
    await inode.close();
  }
}

/** Opens an inode, and not its content, without following a link. Linux only. */
export async function openInode(path: FileName): Promise<FileHandle> {
  return await open(path, O_PATH | O_NOFOLLOW);
}

async function openForReading(path: FileName, flags: number) {
  const handle = await undefinedIfAbsent(open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | flags));
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
 * Returns a path that leads to an open folder, or on Linux to an open inode, even after its name has changed. It replaces
 * openat(2), which Node does not have. macOS finds a folder by its inode number instead.
 */
export async function pathOfHandle(folder: FileHandle): Promise<string> {
  if (process.platform === 'linux') return `/proc/self/fd/${folder.fd}`;
  const { dev, ino } = await folder.stat({ bigint: true });
  return `/.vol/${dev}/${ino}`;
}

/** The path of a name in an open folder. The folder cannot be replaced by a link; the name itself can. */
export async function pathIn(folder: FileHandle, name: FileName): Promise<Buffer> {
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

/** Permissions of the owner of a folder: to list it and to reach its files, or also to change it. */
export type OwnerAccess = 0o500 | 0o700;

/** Opens a folder, and gives its owner this access to it, if that is missing. Links are not followed. */
export async function openWithAccess(path: FileName, access: OwnerAccess): Promise<FileHandle> {
  const folder = await withAccess(path, access, () => openFolderPath(path));
  const { mode } = await folder.stat();
  // Fails for a folder of another owner. If that matters, using its content fails too.
  if ((mode & access) !== access) await folder.chmod((mode & 0o7777) | access).catch(() => undefined);
  return folder;
}

/** Repeats an operation on a folder with this access, if it fails without. */
export async function withAccess<T>(path: FileName, access: OwnerAccess, operation: () => Promise<T>): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes(fileSystemErrorCode(error) ?? '')) throw error;
    await grantAccess(path, access).catch(() => undefined);
    return await operation();
  }
}

/** Changes the mode of a folder. chmod(2) follows links, so it gets the open folder, which no link can replace. */
async function grantAccess(path: FileName, access: OwnerAccess): Promise<void> {
  if (process.platform !== 'linux') return await lchmod(path, access);
  const folder = await openInode(path);
  try {
    const stats = await folder.stat();
    if (stats.isDirectory()) await chmod(await pathOfHandle(folder), (stats.mode & 0o7777) | access);
  } finally {
    await folder.close();
  }
}
