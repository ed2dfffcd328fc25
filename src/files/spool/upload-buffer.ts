import { type FileHandle, open, rm } from 'node:fs/promises';
import type { ZipSource } from '../zip/zip-source.ts';

/** Larger uploads are written to a file. For smaller ones a file would cost more than its content. */
export const maxInMemoryBytes = 65_536;
/** Each chunk has a memory overhead, however small it is. */
const maxInMemoryChunks = 64;

/** Collects an upload in memory while it is small, and in a file from then on. */
export interface UploadBuffer {
  append(chunk: Uint8Array): Promise<void>;
  /** After success the upload is complete. A file is fsynced and closed. */
  finish(): Promise<ZipSource>;
  /** Closes and deletes the file, if there is one. Never throws. */
  discard(): Promise<void>;
}

/** The file is created at `path` only if it is needed. */
export function createUploadBuffer(path: string): UploadBuffer {
  let chunks: Uint8Array[] = [];
  let totalBytes = 0;
  let file: FileHandle | undefined;

  async function moveToFile(): Promise<FileHandle> {
    file = await open(path, 'wx', 0o600);
    for (const chunk of chunks) await file.appendFile(chunk);
    chunks = [];
    return file;
  }

  return {
    async append(chunk) {
      totalBytes += chunk.length;
      const fitsInMemory = totalBytes <= maxInMemoryBytes && chunks.length < maxInMemoryChunks;
      if (file === undefined && fitsInMemory) chunks.push(chunk);
      else await (file ?? (await moveToFile())).appendFile(chunk);
    },
    async finish() {
      if (file === undefined) {
        const [first] = chunks;
        const isOneBuffer = first instanceof Buffer && chunks.length === 1;
        return { kind: 'memory', bytes: isOneBuffer ? first : Buffer.concat(chunks) };
      }
      await file.sync();
      await file.close();
      return { kind: 'file', path };
    },
    async discard() {
      if (file === undefined) return;
      // Errors are ignored: the caller reports the original one, and `removeStaleUploads` deletes the file later.
      await file.close().catch(() => undefined);
      await rm(path, { force: true }).catch(() => undefined);
    },
  };
}
