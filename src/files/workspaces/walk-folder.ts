import type { BigIntStats } from 'node:fs';
import { type FileHandle, lstat } from 'node:fs/promises';
import { maxFolderDepth } from '../safe-paths.ts';
import { type FolderEntry, readFolder } from './read-folder.ts';
import { openFolder, pathOfHandle, undefinedIfAbsent } from './safe-open.ts';

export interface WalkedEntry {
  /** From the home on. Bytes: by text a name that is not UTF-8 cannot be found again. */
  names: Buffer[];
  stats: BigIntStats;
  /** The folder that it is in; open until the next is asked for. */
  folder: FileHandle;
}

/**
 * The regular files and the folders below a folder, found without following a link: see `openFolder`. Holds one folder
 * open, and a batch of its entries. Nothing where there is no such folder.
 */
export async function* walkFolder(home: string, top: readonly string[]): AsyncGenerator<WalkedEntry> {
  const folders: Buffer[][] = [top.map((name) => Buffer.from(name))];
  for (let names = folders.pop(); names !== undefined; names = folders.pop()) {
    const folder = await openFolder(home, names);
    if (folder === undefined) continue;
    try {
      for await (const { name, stats } of entriesOf(Buffer.from(await pathOfHandle(folder)))) {
        const found = { names: [...names, name], stats, folder };
        if (stats.isDirectory() && names.length < maxFolderDepth) folders.push(found.names);
        if (stats.isDirectory() || stats.isFile()) yield found;
      }
    } finally {
      await folder.close();
    }
  }
}

async function* entriesOf(folder: Buffer): AsyncGenerator<{ name: Buffer; stats: BigIntStats }> {
  for await (const batch of batchesOf(folder)) {
    const all = await Promise.all(batch.map(({ path }) => undefinedIfAbsent(lstat(path, { bigint: true }))));
    for (const [index, stats] of all.entries()) {
      const path = batch[index]?.path;
      if (stats !== undefined && path !== undefined) yield { name: path.subarray(folder.length + 1), stats };
    }
  }
}

/** What cannot be read, or has gone, holds nothing. */
async function* batchesOf(folder: Buffer): AsyncGenerator<FolderEntry[]> {
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
