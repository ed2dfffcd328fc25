import type { BigIntStats } from 'node:fs';
import { walkFolder } from './walk-folder.ts';

/**
 * Sums the sizes of the regular files in a folder tree of any depth, in bytes. Links are not followed, and a file with
 * several hard links counts once. Anything that cannot be read counts 0, as does a folder that does not exist.
 */
export async function measureTree(path: string): Promise<number> {
  const countedIds = new Set<string>();
  let total = 0;
  for await (const { stats } of walkFolder(path, [], Number.POSITIVE_INFINITY)) {
    if (stats.isFile() && addIfNew(stats, countedIds)) total += Number(stats.size);
  }
  return total;
}

/** Returns false if the file was counted before. Stores only files with several hard links, to save memory. */
function addIfNew({ dev, ino, nlink }: BigIntStats, countedIds: Set<string>): boolean {
  if (nlink === 1n) return true;
  const id = `${dev}:${ino}`;
  if (countedIds.has(id)) return false;
  countedIds.add(id);
  return true;
}
