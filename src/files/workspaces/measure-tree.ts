import type { BigIntStats } from 'node:fs';
import { lstat } from 'node:fs/promises';
import { fileSystemErrorCode } from '../file-system-errors.ts';
import { type FolderEntry, readFolder } from './walk-folder.ts';

/** Errors that a job can cause by changing its files or their modes. They skip a file, and do not fail the measurement. */
const skippedCodes = new Set(['EACCES', 'ELOOP', 'ENAMETOOLONG', 'ENOENT', 'ENOTDIR', 'EPERM', 'ESTALE']);

/**
 * Sums the sizes of the regular files in a folder tree, in bytes. Links are not followed, and a file with several hard
 * links counts once. Anything that cannot be read counts 0, as does a folder that does not exist. Holds one batch of
 * files in memory, and the folders still to be read.
 */
export async function measureTree(path: string): Promise<number> {
  const folders: Buffer[] = [Buffer.from(path)];
  const countedIds = new Set<string>();
  let total = 0;
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for await (const batch of readIfAllowed(folder)) {
      folders.push(...batch.filter((entry) => entry.isFolder).map((entry) => entry.path));
      const files = batch.filter((entry) => !entry.isFolder);
      for (const stats of await Promise.all(files.map((file) => statIfAllowed(file.path)))) {
        if (stats?.isFile() && addIfNew(stats, countedIds)) total += Number(stats.size);
      }
    }
  }
  return total;
}

async function* readIfAllowed(folder: Buffer): AsyncGenerator<FolderEntry[]> {
  try {
    yield* readFolder(folder);
  } catch (error) {
    rethrowUnlessSkipped(error);
  }
}

async function statIfAllowed(path: Buffer): Promise<BigIntStats | undefined> {
  try {
    return await lstat(path, { bigint: true });
  } catch (error) {
    rethrowUnlessSkipped(error);
    return undefined;
  }
}

function rethrowUnlessSkipped(error: unknown) {
  if (!skippedCodes.has(fileSystemErrorCode(error) ?? '')) throw error;
}

/** Returns false if the file was counted before. Stores only files with several hard links, to save memory. */
function addIfNew({ dev, ino, nlink }: BigIntStats, countedIds: Set<string>): boolean {
  if (nlink === 1n) return true;
  const id = `${dev}:${ino}`;
  if (countedIds.has(id)) return false;
  countedIds.add(id);
  return true;
}
