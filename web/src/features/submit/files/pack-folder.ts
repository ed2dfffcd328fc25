import {
  centralHeader,
  dataDescriptor,
  endRecords,
  localHeader,
  type WrittenZipEntry,
} from '../../../../../src/files/zip/zip-writer-records.ts';
import { crc32 } from './crc32.ts';
import type { FolderFile } from './selection.ts';

interface PackOptions {
  /** Gets the number of bytes of the files that have been packed so far. */
  onProgress: (bytes: number) => void;
  signal: AbortSignal;
}

const fileTypes = { file: 0o100000, folder: 0o040000 };
/** MS-DOS dates start in 1980, and the extended timestamp has 32 bits. */
const timeRangeMs = { min: Date.UTC(1980, 0, 2), max: 0x7fff_ffff * 1000 };
const zip64Bytes = 0xff00_0000;
/** Browsers move large blobs to the disk, but not many small arrays. */
const blobBytes = 8 * 1024 * 1024;

/** Packs files into a zip. The same files always give the same bytes, so that a repeated submission is the same one. */
export async function packFolder(files: readonly FolderFile[], { onProgress, signal }: PackOptions): Promise<Blob> {
  const output = createOutput();
  const headers: Uint8Array[] = [];
  let packedFileBytes = 0;
  for (const file of files) {
    const entry = await toZipEntry(file, output.length());
    output.write(localHeader(entry));
    if (file.file !== null && file.bytes > 0) {
      for await (const chunk of deflate(file.file, entry, signal)) {
        entry.packedSize += chunk.length;
        output.write(chunk);
        onProgress(packedFileBytes + entry.size);
      }
      if (entry.size !== file.bytes) throw changed(file.path);
      packedFileBytes += entry.size;
    }
    output.write(dataDescriptor(entry));
    headers.push(centralHeader(entry));
  }
  const directoryStart = output.length();
  for (const header of headers) output.write(header);
  output.write(endRecords(files.length, output.length() - directoryStart, directoryStart));
  return output.toBlob();
}

async function* deflate(file: File, entry: WrittenZipEntry, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const measure = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
    transform(chunk, controller) {
      entry.crc = crc32(chunk, entry.crc);
      entry.size += chunk.length;
      controller.enqueue(chunk);
    },
  });
  const packed = file.stream().pipeThrough(measure, { signal }).pipeThrough(new CompressionStream('deflate-raw'));
  const reader = packed.getReader();
  while (true) {
    const { done, value } = await reader.read().catch((error: unknown) => {
      signal.throwIfAborted();
      throw error instanceof DOMException ? changed(entry.name.toString()) : error;
    });
    if (done) return;
    yield value;
  }
}

const changed = (path: string) =>
  new Error(`${path} cannot be read, or has changed since it was chosen. Choose the files again.`);

async function toZipEntry({ path, file, bytes }: FolderFile, offset: number): Promise<WrittenZipEntry> {
  const kind = file === null ? 'folder' : 'file';
  const time = Math.min(Math.max(file?.lastModified ?? 0, timeRangeMs.min), timeRangeMs.max);
  return {
    name: Buffer.from(kind === 'folder' ? `${path}/` : path),
    mode: fileTypes[kind] | (file === null || (await isProgram(file)) ? 0o755 : 0o644),
    time: new Date(time),
    offset,
    isDeflated: bytes > 0,
    size: 0,
    packedSize: 0,
    crc: 0,
    isZip64: bytes >= zip64Bytes,
  };
}

/** Browsers do not tell whether a file is executable. Scripts and programs for Linux show it by their first bytes. */
async function isProgram(file: File): Promise<boolean> {
  const start = new Uint8Array(
    await file
      .slice(0, 4)
      .arrayBuffer()
      .catch(() => new ArrayBuffer(0)),
  );
  const text = String.fromCharCode(...start);
  return text.startsWith('#!') || text === '\x7fELF';
}

/** Collects the bytes of the zip in a few large blobs. */
function createOutput() {
  const blobs: Blob[] = [];
  let pending: BlobPart[] = [];
  let pendingBytes = 0;
  let total = 0;
  const flush = () => {
    blobs.push(new Blob(pending));
    pending = [];
    pendingBytes = 0;
  };
  return {
    write(bytes: Uint8Array): void {
      pending.push(bytes as Uint8Array<ArrayBuffer>);
      pendingBytes += bytes.length;
      total += bytes.length;
      if (pendingBytes >= blobBytes) flush();
    },
    length: () => total,
    toBlob(): Blob {
      flush();
      return new Blob(blobs, { type: 'application/zip' });
    },
  };
}
