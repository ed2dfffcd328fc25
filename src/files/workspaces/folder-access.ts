import { chmod, type FileHandle, lchmod } from 'node:fs/promises';
import { fileSystemErrorCode } from '../file-system-errors.ts';
import { openFolderPath, openInode, pathOfHandle } from './safe-open.ts';

/** Permissions of the owner of a folder: to list it and to reach its files, or also to change it. */
export type OwnerAccess = 0o500 | 0o700;

/** Opens a folder, and gives its owner this access to it, if that is missing. Links are not followed. */
export async function openWithAccess(path: string | Buffer, access: OwnerAccess): Promise<FileHandle> {
  const folder = await withAccess(path, access, () => openFolderPath(path));
  const { mode } = await folder.stat();
  // Fails for a folder of another owner. If that matters, using its content fails too.
  if ((mode & access) !== access) await folder.chmod((mode & 0o7777) | access).catch(() => undefined);
  return folder;
}

/** Repeats an operation on a folder with this access, if it fails without. */
export async function withAccess<T>(
  path: string | Buffer,
  access: OwnerAccess,
  operation: () => Promise<T>,
): Promise<T> {
  try {
    return await operation();
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes(fileSystemErrorCode(error) ?? '')) throw error;
    await grantAccess(path, access).catch(() => undefined);
    return await operation();
  }
}

/** Changes the mode of a folder. chmod(2) follows links, so it gets the open folder, which no link can replace. */
async function grantAccess(path: string | Buffer, access: OwnerAccess): Promise<void> {
  if (process.platform !== 'linux') return await lchmod(path, access);
  const folder = await openInode(path);
  try {
    const stats = await folder.stat();
    if (stats.isDirectory()) await chmod(await pathOfHandle(folder), (stats.mode & 0o7777) | access);
  } finally {
    await folder.close();
  }
}
