import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat, opendir } from 'node:fs/promises';
import { maxFolderDepth } from '../safe-paths.ts';
import {
  type OpenFolderPath,
  openFolder,
  openFolderPath,
  openSubfolder,
  pathIn,
  pathOfHandle,
  undefinedIfAbsent,
} from './safe-open.ts';

export interface FolderEntry {
  name: Buffer;
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
    const name = Buffer.from(entry.name);
    batch.push({ name, path: Buffer.concat([path, slash, name]), isFolder: entry.isDirectory() });
    if (batch.length < batchSize) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}

export interface WalkedEntry {
  /** A Buffer, because a name may not be UTF-8. */
  name: Buffer;
  stats: BigIntStats;
  /** The folder that contains the entry. It stays open until the next entry is requested. */
  folder: FileHandle;
  /** The path of that folder from the root of the walk, as names. It changes when the next entry is requested. */
  folderNames: readonly Buffer[];
}

export interface WalkOptions {
  /** Deeper folders are not read. */
  maxDepth?: number;
  /** Opens each folder. By default, folders that cannot be opened are skipped. */
  openPath?: OpenFolderPath;
}

/** A folder that was read, and the names of its subfolders that were not. */
interface Level {
  id: string;
  subfolders: Buffer[];
}

/**
 * Walks everything below `root`/`top`, depth first, without following links: see `openFolder`. Keeps one folder open, one
 * batch of its entries in memory, one name for each folder above it, and the names of the folders still to be read.
 * Yields nothing if the folder does not exist.
 */
export async function* walkFolder(
  root: string,
  top: readonly string[],
  { maxDepth = maxFolderDepth, openPath = openFolderPath }: WalkOptions = {},
): AsyncGenerator<WalkedEntry> {
  const levels: Level[] = [];
  // A job can nest thousands of folders: a path for each of them would need memory with the square of the depth.
  const folderNames = top.map((name) => Buffer.from(name));
  let folder = await openFolder(root, folderNames, openPath);
  try {
    while (folder !== undefined) {
      const subfolders: Buffer[] = [];
      for await (const { name, stats } of readEntries(Buffer.from(await pathOfHandle(folder)))) {
        if (stats.isDirectory() && folderNames.length < maxDepth) subfolders.push(name);
        yield { name, stats, folder, folderNames };
      }
      levels.push({ id: subfolders.length === 0 ? '' : await idOf(folder), subfolders });
      folder = await openNext({ root, levels, folderNames, openPath }, folder);
    }
  } finally {
    await folder?.close();
  }
}

/** The position of a walk. */
interface Walk {
  root: string;
  levels: Level[];
  folderNames: Buffer[];
  openPath: OpenFolderPath;
}

/** Opens the next folder of a walk, and closes the current one. Returns undefined at the end. */
async function openNext(walk: Walk, current: FileHandle) {
  const { levels, folderNames, openPath } = walk;
  let parent: FileHandle | undefined = current;
  let stepsUp = 0;
  try {
    for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
      const name = level.subfolders.pop();
      if (name === undefined) {
        levels.pop();
        folderNames.pop();
        stepsUp += 1;
        continue;
      }
      if (stepsUp > 0 || parent === undefined) {
        const child: FileHandle | undefined = parent;
        parent = await openParent(walk, level, child, stepsUp).finally(() => child?.close());
        stepsUp = 0;
      }
      const folder = parent && (await openSubfolder(parent, name, openPath));
      if (folder === undefined) continue;
      folderNames.push(name);
      return folder;
    }
    return undefined;
  } finally {
    await parent?.close();
  }
}

/**
 * Returns to a folder that the walk has come from. Opening it by its names costs a step for each level, so that is done
 * only if a job has moved the folder that the walk is in: then the folder above it is another one.
 */
async function openParent(walk: Walk, level: Level, child: FileHandle | undefined, steps: number) {
  const { root, folderNames, openPath } = walk;
  if (child !== undefined) {
    const path = await pathIn(child, Array.from({ length: steps }, () => '..').join('/'));
    const parent = await undefinedIfAbsent(openPath(path));
    if (parent !== undefined && (await idOf(parent)) === level.id) return parent;
    await parent?.close();
  }
  return await openFolder(root, folderNames, openPath);
}

async function idOf(folder: FileHandle): Promise<string> {
  const { dev, ino } = await folder.stat({ bigint: true });
  return `${dev}:${ino}`;
}

async function* readEntries(folder: Buffer): AsyncGenerator<{ name: Buffer; stats: BigIntStats }> {
  for await (const batch of readIfReadable(folder)) {
    const batchStats = await Promise.all(batch.map(({ path }) => undefinedIfAbsent(lstat(path, { bigint: true }))));
    for (const [index, stats] of batchStats.entries()) {
      const name = batch[index]?.name;
      if (stats !== undefined && name !== undefined) yield { name, stats };
    }
  }
}

/** Treats a folder that cannot be read, or no longer exists, as empty. */
async function* readIfReadable(folder: Buffer): AsyncGenerator<FolderEntry[]> {
  try {
    yield* readFolder(folder);
  } catch (error) {
    await undefinedIfAbsent(Promise.reject(error));
  }
}
