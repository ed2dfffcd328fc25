import type { BigIntStats } from 'node:fs';
import type { WorkspaceUsage } from '../../domain/jobs/file-limits.ts';
import { walkFolder } from './walk-folder.ts';

/**
 * Counts everything in a folder tree of any depth, and sums the sizes of the regular files. Links are not followed, and a
 * file with several hard links is summed once. Anything that cannot be read counts 0, as does a folder that does not
 * exist. Stops after more than `maxEntries`.
 */
export async function measureTree(path: string, signal: AbortSignal, maxEntries: number): Promise<WorkspaceUsage> {
  const summedIds = new Set<string>();
  const usage = { bytes: 0, entries: 0 };
  for await (const { stats } of walkFolder(path, [], Number.POSITIVE_INFINITY)) {
    signal.throwIfAborted();
    usage.entries += 1;
    if (stats.isFile() && addIfNew(stats, summedIds)) usage.bytes += Number(stats.size);
    if (usage.entries > maxEntries) break;
  }
  return usage;
}

/** Returns false if the file was summed before. Stores only files with several hard links, to save memory. */
function addIfNew({ dev, ino, nlink }: BigIntStats, summedIds: Set<string>): boolean {
  if (nlink === 1n) return true;
  const id = `${dev}:${ino}`;
  if (summedIds.has(id)) return false;
  summedIds.add(id);
  return true;
}
