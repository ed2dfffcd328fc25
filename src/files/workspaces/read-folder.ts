import { opendir } from 'node:fs/promises';

export interface FolderEntry {
  path: Buffer;
  isFolder: boolean;
}

const batchSize = 64;
const slash = Buffer.from('/');
/** Node takes this encoding for `opendir`, and answers with bytes; only its types do not know. */
const bytes: string = 'buffer';

/**
 * Reads a folder in batches, holding one of them at a time. Paths are bytes: a job may give its files names that
 * are not UTF-8, and by text those cannot be found again.
 */
export async function* readFolder(path: Buffer): AsyncGenerator<FolderEntry[]> {
  let batch: FolderEntry[] = [];
  for await (const entry of await opendir(path, { encoding: bytes as BufferEncoding, bufferSize: batchSize })) {
    batch.push({ path: Buffer.concat([path, slash, Buffer.from(entry.name)]), isFolder: entry.isDirectory() });
    if (batch.length < batchSize) continue;
    yield batch;
    batch = [];
  }
  yield batch;
}
