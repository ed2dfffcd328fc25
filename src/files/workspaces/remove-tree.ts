import { randomUUID } from 'node:crypto';
import { chmod, lstat, rename, rmdir, unlink } from 'node:fs/promises';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { readFolder } from './read-folder.ts';

/** Half of what systems take for a path, so that the names below still fit. */
const maxPathBytes = 2000;

/**
 * Removes a folder with everything in it, whatever a job made of it: folders that nobody may read or write, names
 * that are not UTF-8, paths longer than the system takes. Links are removed, never followed. After success
 * nothing is there, whether there was something or not. After a failure or a crash part of it is left: repeat it.
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

/** Empties the folders from the top down, then removes them from the bottom up. Nothing recurses, however deep. */
async function removeFolder(top: Buffer) {
  const emptied: Buffer[] = [];
  const folders = [top];
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    emptied.push(folder);
    await unlock(folder);
    for await (const batch of readFolder(folder)) {
      await Promise.all(batch.filter((entry) => !entry.isFolder).map((entry) => ifThere(unlink(entry.path))));
      for (const entry of batch.filter((each) => each.isFolder)) folders.push(await withinReach(entry.path, top));
    }
  }
  for (const folder of emptied.reverse()) await ifThere(rmdir(folder));
}

/** A folder that lies too deep is moved up, to where the paths in it are short enough to be used. */
async function withinReach(folder: Buffer, top: Buffer): Promise<Buffer> {
  if (folder.length <= maxPathBytes) return folder;
  const higher = Buffer.concat([top, Buffer.from(`/${randomUUID()}`)]);
  await unlock(folder);
  await rename(folder, higher);
  return higher;
}

/** Fails for folders of another owner; if that matters, what comes next says so. */
async function unlock(folder: Buffer) {
  await chmod(folder, 0o700).catch(() => undefined);
}

async function ifThere(removal: Promise<void>) {
  await removal.catch((error) => {
    if (fileSystemErrorCode(error) !== 'ENOENT') throw error;
  });
}
