import { randomUUID } from 'node:crypto';
import { chmod, lstat, rename, rmdir, unlink } from 'node:fs/promises';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { readFolder } from './walk-folder.ts';

/** Half of the usual PATH_MAX, so that the names below still fit. */
const maxPathBytes = 2000;

/**
 * Deletes a folder tree, including what `rm -r` cannot handle: folders without read or write permission, names that
 * are not UTF-8, and paths longer than PATH_MAX. Links are deleted, never followed. After success the path does not
 * exist, whether it existed before or not. After a failure or a crash part of the tree may remain: call it again.
 */
export async function removeTree(path: string): Promise<void> {
  try {
    const stats = await lstat(path);
    if (stats.isDirectory()) await removeFolder(Buffer.from(path));
    else await unlink(path);
  } catch (error) {
    if (fileSystemErrorCode(error) === 'ENOENT') return;
    throw toFileSystemError('remove the files of a job', error);
  }
}

/** Empties the folders top down, then deletes them bottom up. Not recursive, so any depth works. */
async function removeFolder(top: Buffer) {
  const emptied: Buffer[] = [];
  const folders = [top];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    emptied.push(folder);
    await makeAccessible(folder);
    for await (const batch of readFolder(folder)) {
      await Promise.all(batch.filter((entry) => !entry.isFolder).map((entry) => ignoreMissing(unlink(entry.path))));
      for (const entry of batch.filter((each) => each.isFolder)) folders.push(await shortenPath(entry.path, top));
    }
  }
  for (const folder of emptied.reverse()) await ignoreMissing(rmdir(folder));
}

/** Moves a folder that is too deep up to `top`, so that the paths inside it become short enough. */
async function shortenPath(folder: Buffer, top: Buffer): Promise<Buffer> {
  if (folder.length <= maxPathBytes) return folder;
  const movedFolder = Buffer.concat([top, Buffer.from(`/${randomUUID()}`)]);
  await makeAccessible(folder);
  await rename(folder, movedFolder);
  return movedFolder;
}

/** Fails for folders of another owner. If that matters, the next operation on the folder reports it. */
async function makeAccessible(folder: Buffer) {
  await chmod(folder, 0o700).catch(() => undefined);
}

async function ignoreMissing(removal: Promise<void>) {
  await removal.catch((error) => {
    if (fileSystemErrorCode(error) !== 'ENOENT') throw error;
  });
}
