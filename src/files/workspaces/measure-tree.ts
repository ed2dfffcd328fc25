import type { BigIntStats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { fileSystemErrorCode } from '../file-system-errors.ts';
import { type FolderEntry, readFolder } from './read-folder.ts';

/** What a job can do to its files while they are counted, or before. None of it is a reason to count nothing. */
const outOfSight = new Set(['EACCES', 'ELOOP', 'ENAMETOOLONG', 'ENOENT', 'ENOTDIR', 'EPERM', 'ESTALE']);

/**
 * The sizes of the regular files under a folder, in bytes; links are not followed, and a file with several names
 * counts once. What cannot be seen counts nothing, and so does a folder that is not there. Holds one batch of
 * files at a time, besides the folders still to be read.
 */
export async function measureTree(path: string): Promise<number> {
  const folders: Buffer[] = [Buffer.from(path)];
  const seen = new Set<string>();
  let total = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for await (const batch of readVisible(folder)) {
      folders.push(...batch.filter((entry) => entry.isFolder).map((entry) => entry.path));
      const files = batch.filter((entry) => !entry.isFolder);
      for (const stats of await Promise.all(files.map((file) => statsIfVisible(file.path)))) {
        if (stats?.isFile() && isFirstSight(stats, seen)) total += Number(stats.size);
      }
    }
  }
  return total;
}

async function* readVisible(folder: Buffer): AsyncGenerator<FolderEntry[]> {
  try {
    yield* readFolder(folder);
  } catch (error) {
    throwUnlessOutOfSight(error);
  }
}

async function statsIfVisible(path: Buffer): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true });
  } catch (error) {
    throwUnlessOutOfSight(error);
    return undefined;
  }
}

function throwUnlessOutOfSight(error: unknown) {
  if (!outOfSight.has(fileSystemErrorCode(error) ?? '')) throw error;
}

/** Only files with several names are remembered, so that a large tree costs no memory. */
function isFirstSight({ dev, ino, nlink }: BigIntStats, seen: Set<string>): boolean {
  if (nlink === 1n) return true;
  const identity = `${dev}:${ino}`;
  if (seen.has(identity)) return false;
  seen.add(identity);
  return true;
}
