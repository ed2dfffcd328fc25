import type { BigIntStats } from 'node:fs';
import { toChargedBytes, type WorkspaceUsage } from '../../domain/jobs/file-limits.ts';
import { openWithAccess } from './folder-access.ts';
import type { FileName } from './safe-open.ts';
import { walkFolder } from './walk-folder.ts';

/**
 * Counts everything in a folder tree of any depth, and sums the sizes of the regular files. Links are not followed, and a
 * file with several hard links is summed once. A folder that its owner may not list or search is made readable: a job
 * could hide its files there, because it can write to such a folder. A folder that does not exist counts 0, as does one
 * that another user has locked. Stops after more than `maxEntries`.
 */
export async function measureTree(path: string, signal: AbortSignal, maxEntries: number): Promise<WorkspaceUsage> {
  const summedIds = new Set<string>();
  const usage = { bytes: 0, entries: 0 };
  const openPath = (folder: FileName) => openWithAccess(folder, 0o500);
  for await (const { stats } of walkFolder(path, [], { maxDepth: Number.POSITIVE_INFINITY, openPath })) {
    signal.throwIfAborted();
    usage.entries += 1;
    if (stats.isFile() && addIfNew(stats, summedIds)) {
      usage.bytes += toChargedBytes(Number(stats.size), Number(stats.blocks));
    }
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
