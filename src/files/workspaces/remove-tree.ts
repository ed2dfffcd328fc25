import { randomUUID } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, open, rename, rmdir, unlink } from 'node:fs/promises';
import { basename, dirname } from 'node:path';
import { fileSystemErrorCode, ignoreErrors, toFileSystemError } from '../file-system-errors.ts';
import { type FileName, openWithAccess, pathIn, pathOfHandle, withAccess } from './safe-open.ts';
import { readFolder } from './walk-folder.ts';

/**
 * Deletes a folder tree, including what `rm -r` cannot handle: folders without read or write permission, names that
 * are not UTF-8, and paths longer than PATH_MAX. Links are deleted, never followed, even if a process puts one in the
 * place of a folder meanwhile: each name is looked up in a folder that is already open. After success the path does not
 * exist, whether it existed before or not. After a failure or a crash part of the tree may remain: call it again.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    const parent = await open(dirname(path), constants.O_RDONLY | constants.O_DIRECTORY);
    try {
      await removeEntry(parent, basename(path));
    } finally {
      await parent.close();
    }
  } catch (error) {
    if (fileSystemErrorCode(error) === 'ENOENT') return;
    throw toFileSystemError('remove the files of a job', error);
  }
}

async function removeEntry(parent: FileHandle, name: string): Promise<void> {
  const top = await openForRemoval(parent, name);
  const path = await pathIn(parent, name);
  if (top === undefined) return await unlink(path);
  try {
    await emptyTree(top);
  } finally {
    await top.close();
  }
  await rmdir(path);
}

/**
 * Empties a folder. Every folder inside it is moved directly into it before it is emptied itself, so that any depth
 * works with two open folders.
 */
async function emptyTree(top: FileHandle): Promise<void> {
  const folders: FileName[] = [];
  await emptyFolder(top, top, folders);
  for (let name = folders.pop(); name !== undefined; name = folders.pop()) {
    const path = await pathIn(top, name);
    let folder: FileHandle | undefined;
    try {
      folder = await openForRemoval(top, name);
    } catch (error) {
      // A process of the job has moved or deleted the folder. The rest of the tree must still be deleted.
      if (fileSystemErrorCode(error) === 'ENOENT') continue;
      throw error;
    }
    // Another process has replaced the folder.
    if (folder === undefined) {
      await ignoreErrors(unlink(path), 'ENOENT');
      continue;
    }
    try {
      await emptyFolder(folder, top, folders);
    } finally {
      await folder.close();
    }
    await ignoreErrors(rmdir(path), 'ENOENT');
  }
}

/** Deletes the files of a folder, moves its subfolders to `top`, and adds their names there to `folders`. */
async function emptyFolder(folder: FileHandle, top: FileHandle, folders: FileName[]): Promise<void> {
  for await (const batch of readFolder(Buffer.from(await pathOfHandle(folder)))) {
    const files = batch.filter((entry) => !entry.isFolder);
    await Promise.all(files.map((entry) => ignoreErrors(unlink(entry.path), 'ENOENT')));
    for (const { path, name } of batch.filter((entry) => entry.isFolder)) {
      if (folder === top) {
        folders.push(name);
        continue;
      }
      const newName = randomUUID();
      const newPath = await pathIn(top, newName);
      const moving = withAccess(path, 0o700, () => rename(path, newPath));
      if (await ignoreErrors(moving, 'ENOENT')) folders.push(newName);
    }
  }
}

/** Opens a folder whose content can be deleted. Returns undefined if the name is not that of a folder. */
async function openForRemoval(parent: FileHandle, name: FileName): Promise<FileHandle | undefined> {
  const path = await pathIn(parent, name);
  try {
    return await openWithAccess(path, 0o700);
  } catch (error) {
    if (['ELOOP', 'EMLINK', 'ENOTDIR'].includes(fileSystemErrorCode(error) ?? '')) return undefined;
    throw error;
  }
}
