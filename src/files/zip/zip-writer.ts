import { pipeline, Readable } from 'node:stream';
import { crc32, createDeflateRaw } from 'node:zlib';
import { centralHeader, dataDescriptor, endRecords, localHeader, type WrittenZipEntry } from './zip-writer-records.ts';

/** The time range of a zip: MS-DOS dates start in 1980, and the extended timestamp has 32 bits. */
const timeRangeMs = { min: Date.UTC(1980, 0, 2), max: 0x7fff_ffff * 1000 };
/** The file types of a Unix mode: S_IFREG and S_IFDIR. */
const fileTypes = { file: 0o100000, folder: 0o040000 };
const chunkBytes = 256 * 1024;
/** From this size on an entry has 64-bit sizes. Contents that cannot be compressed grow a little. */
const zip64Bytes = 0xff00_0000;

/** A file or folder to archive. It must be consumed before the next one is requested. */
export type ArchiveEntry = { path: string; modifiedAt: number; mode: number } & (
  | { kind: 'folder' }
  /** `open` streams at most `size` bytes. It returns undefined if the file no longer exists. */
  | { kind: 'file'; size: number; open(): Promise<Readable | undefined> }
);

/**
 * Writes a zip while its entries are read: one entry is open at a time, and no content is held in memory. Resolves after
 * the first entry, so that an archive that fails at once rejects here, before a response has begun. An entry that fails
 * later fails the stream.
 *
 * The sizes and the checksum follow each content, so the zip is valid even if a file changes while it is read. Contents
 * are not compressed, to spare the CPU of this host, which all users share.
 *
 * (The zip packages that were tried need quadratic time, or all the memory at the end, for very many files.)
 */
export async function writeZip(entries: AsyncIterable<ArchiveEntry>): Promise<Readable> {
  const iterator = entries[Symbol.asyncIterator]();
  const first = await iterator.next();
  const chunks = zipChunks(prepend(first, iterator));
  const stream = Readable.from(chunks, { objectMode: false, highWaterMark: chunkBytes });
  // A generator that has not started yet runs no `finally` block when the stream is destroyed.
  return stream.once('close', () => void iterator.return?.().catch(() => undefined));
}

async function* prepend<T>(first: IteratorResult<T>, iterator: AsyncIterator<T>): AsyncGenerator<T> {
  for (let next = first; !next.done; next = await iterator.next()) yield next.value;
}

/** Like `writeZip`, as chunks. With `isCompressed` contents are deflated: clients do that before they send files. */
export async function* zipChunks(
  entries: AsyncIterable<ArchiveEntry>,
  { isCompressed = false } = {},
): AsyncGenerator<Buffer> {
  const directory = createCentralDirectory();
  let offset = 0;
  for await (const source of entries) {
    const content = source.kind === 'file' ? await source.open() : Readable.from([]);
    if (content === undefined) continue;
    const entry = toZipEntry(source, offset, isCompressed);
    const header = localHeader(entry);
    yield header;
    const packed = entry.isDeflated ? deflate(content, entry) : content;
    for await (const chunk of packed as AsyncIterable<Buffer>) {
      if (!entry.isDeflated) addContent(entry, chunk);
      entry.packedSize += chunk.length;
      yield chunk;
    }
    const descriptor = dataDescriptor(entry);
    yield descriptor;
    directory.add(centralHeader(entry));
    offset += header.length + entry.packedSize + descriptor.length;
  }
  yield* directory.blocks();
  yield endRecords(directory.count(), directory.length(), offset);
}

function addContent(entry: WrittenZipEntry, chunk: Buffer): void {
  entry.crc = crc32(chunk, entry.crc);
  entry.size += chunk.length;
}

function deflate(content: AsyncIterable<Buffer>, entry: WrittenZipEntry): Readable {
  async function* measured() {
    for await (const chunk of content) {
      addContent(entry, chunk);
      yield chunk;
    }
  }
  // An error also fails the stream that is returned.
  return pipeline(measured, createDeflateRaw(), () => undefined);
}

function toZipEntry(source: ArchiveEntry, offset: number, isCompressed: boolean): WrittenZipEntry {
  const { path, mode, modifiedAt, kind } = source;
  return {
    name: Buffer.from(kind === 'folder' ? `${portableName(path)}/` : portableName(path)),
    mode: fileTypes[kind] | mode,
    time: new Date(Math.min(Math.max(modifiedAt, timeRangeMs.min), timeRangeMs.max)),
    offset,
    isDeflated: isCompressed && kind === 'file' && source.size > 0,
    size: 0,
    packedSize: 0,
    crc: 0,
    isZip64: kind === 'file' && source.size >= zip64Bytes,
  };
}

/** Replaces backslashes and drive letters, so that the name is also safe to unpack on Windows. */
function portableName(path: string): string {
  return path.replaceAll('\\', '_').replace(/^([A-Za-z]):/, '$1_');
}

/** Joins the headers into large blocks: very many small buffers would cost more memory than their content. */
function createCentralDirectory() {
  const blocks: Buffer[] = [];
  let headers: Buffer[] = [];
  let count = 0;
  let length = 0;
  let blockBytes = 0;
  const closeBlock = () => {
    blocks.push(Buffer.concat(headers));
    headers = [];
    blockBytes = 0;
  };
  return {
    add(header: Buffer) {
      headers.push(header);
      count += 1;
      length += header.length;
      blockBytes += header.length;
      if (blockBytes >= chunkBytes) closeBlock();
    },
    *blocks() {
      closeBlock();
      yield* blocks;
    },
    count: () => count,
    length: () => length,
  };
}
