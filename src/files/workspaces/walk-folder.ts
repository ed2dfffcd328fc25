import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat, opendir } from 'node:fs/promises';
import { maxFolderDepth } from '../safe-paths.ts';
import { openFolder, pathOfHandle, undefinedIfAbsent } from './safe-open.ts';

export interface FolderEntry {
  path: Buffer;
  isFolder: boolean;
}

const batchSize = 64;
const slash = Buffer.from('/');
/** `opendir` accepts this encoding and then returns Buffers, but its type declaration lacks it. */
const bufferEncoding: string = 'buffer';

/**
 * Reads one folder in batches, and holds one batch at a time. Paths are Buffers because a job can create names that are
 * not UTF-8, and a string could not be converted back to such a name.
 */
export async function* readFolder(path: Buffer): AsyncGenerator<FolderEntry[]> {
  let batch: FolderEntry[] = [];
  for await (const entry of await opendir(path, {
    encoding: bufferEncoding as BufferEncoding,
    bufferSize: batchSize,
  })) {
    batch.push({ path: Buffer.concat([path, slash, Buffer.from(entry.name)]), isFolder: entry.isDirectory() });
    if (batch.length < batchSize) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

export interface WalkedEntry {
  /** The path from the root of the walk, as names. Buffers, because a name may not be UTF-8. */
  names: Buffer[];
  stats: BigIntStats;
  /** The folder that contains the entry. It stays open until the next entry is requested. */
  folder: FileHandle;
}

/**
 * Walks the regular files and folders below `root`/`top` without following links: see `openFolder`. Keeps one folder
 * open and one batch of its entries in memory. Yields nothing if the folder does not exist.
 */
export async function* walkFolder(root: string, top: readonly string[]): AsyncGenerator<WalkedEntry> {
  const folders: Buffer[][] = [top.map((name) => Buffer.from(name))];
  for (let names = folders.pop(); names !== undefined; names = folders.pop()) {
    const folder = await openFolder(root, names);
    if (folder === undefined) continue;
    try {
      for await (const { name, stats } of readEntries(Buffer.from(await pathOfHandle(folder)))) {
        const entry = { names: [...names, name], stats, folder };
        if (stats.isDirectory() && names.length < maxFolderDepth) folders.push(entry.names);
        if (stats.isDirectory() || stats.isFile()) yield entry;
      }
    } finally {
      await folder.close();
    }
  }
}

async function* readEntries(folder: Buffer): AsyncGenerator<{ name: Buffer; stats: BigIntStats }> {
  for await (const batch of readIfReadable(folder)) {
    const batchStats = await Promise.all(batch.map(({ path }) => undefinedIfAbsent(lstat(path, { bigint: true }))));
    for (const [index, stats] of batchStats.entries()) {
      const path = batch[index]?.path;
      if (stats !== undefined && path !== undefined) yield { name: path.subarray(folder.length + 1), stats };
    }
  }
}

/** Treats a folder that cannot be read, or no longer exists, as empty. */
async function* readIfReadable(folder: Buffer): AsyncGenerator<FolderEntry[]> {
  const batches = readFolder(folder);
  try {
    for (;;) {
      const next = await undefinedIfAbsent(batches.next());
      if (next === undefined || next.done) return;
      yield next.value;
    }
  } finally {
    await batches.return(undefined);
  }
}
