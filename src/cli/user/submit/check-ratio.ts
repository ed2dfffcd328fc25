import { createReadStream } from 'node:fs';
import { join } from 'node:path';
import { createDeflateRaw } from 'node:zlib';
import type { FolderEntry } from '#client';
import { exceedsMaxRatio, type ZipLimits } from '../../../files/zip/zip-entries.ts';
import { invalidEntry, invalidZip } from '../../../files/zip/zip-errors.ts';

const remedy = 'Generate such data in the job instead of sending it.';

/**
 * Throws `invalid_zip` for a folder that compresses so well that the server would take its zip for a zip bomb. Compresses
 * only as much of each file as is needed to be sure, which is little of most files.
 */
export async function checkRatio(folder: string, entries: readonly FolderEntry[], limits: ZipLimits): Promise<void> {
  const files = entries.filter(({ kind }) => kind === 'file').toSorted((a, b) => b.size - a.size);
  const totalBytes = files.reduce((sum, { size }) => sum + size, 0);
  /** At least so much will be in the zip. */
  let packedBytes = 0;
  for (const { path, size } of files) {
    const mayBeBomb = exceedsMaxRatio(size, 1, limits);
    // The large files come first. The others matter only together.
    if (!mayBeBomb && !exceedsMaxRatio(totalBytes, Math.max(packedBytes, 1), limits)) return;
    // As much as this file needs for itself, and all files together still need.
    const enough = Math.max(size / limits.maxRatio, totalBytes / limits.maxRatio - packedBytes);
    const filePackedBytes = await measurePackedBytes(join(folder, path), enough);
    packedBytes += filePackedBytes;
    if (exceedsMaxRatio(size, filePackedBytes, limits)) {
      throw invalidEntry(path, `compresses to less than 1/${limits.maxRatio} of its size`, remedy);
    }
  }
  if (exceedsMaxRatio(totalBytes, Math.max(packedBytes, 1), limits)) {
    throw invalidZip(`The folder compresses to less than 1/${limits.maxRatio} of its size. ${remedy}`);
  }
}

/** Returns the compressed size, or any number from `enough` as soon as the size cannot be smaller. */
async function measurePackedBytes(file: string, enough: number): Promise<number> {
  const content = createReadStream(file, { highWaterMark: 64 * 1024 });
  const packed = content.pipe(createDeflateRaw());
  content.once('error', (error) => packed.destroy(error));
  let bytes = 0;
  for await (const chunk of packed as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes >= enough) break;
  }
  content.destroy();
  return bytes;
}
