import { type FileHandle, open } from 'node:fs/promises';
import { pipeline } from 'node:stream';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import type { Entry } from 'yauzl';
import { BursarError } from '../../domain/errors.ts';
import { toFileSystemError } from '../file-system-errors.ts';
import { createByteReader, type OpenZip, openZip, readDirectory, type ZipDirectory } from './zip-directory.ts';
import type { ZipEntry, ZipLimits } from './zip-entries.ts';
import { invalidEntry, toZipError } from './zip-errors.ts';

/** The bytes of a zip. Small zips are held in memory, all others are files. */
export type ZipSource = { kind: 'memory'; bytes: Buffer } | { kind: 'file'; path: string };

/** A zip with a valid central directory. `readContent` detects contents that contradict it. */
export type CheckedZip = OpenZip & ZipDirectory;

/**
 * Checks the central directory of a zip as `readDirectory` does, and calls `use` with the zip. A file is closed
 * afterwards, even after an error. Errors that the bytes of the directory cause are thrown as `invalid_zip`; errors of
 * `use` pass through.
 */
export async function withZip<T>(
  source: ZipSource,
  limits: ZipLimits,
  use: (zip: CheckedZip) => Promise<T>,
): Promise<T> {
  if (source.kind === 'memory') return await use(await openChecked(source.bytes, limits));
  const file = await open(source.path, 'r').catch((error) => {
    throw toZipError(error);
  });
  try {
    return await use(await openChecked(file, limits));
  } finally {
    await file.close();
  }
}

async function openChecked(bytes: Buffer | FileHandle, limits: ZipLimits): Promise<CheckedZip> {
  try {
    const zip = await openZip(Buffer.isBuffer(bytes) ? bufferReader(bytes) : await fileReader(bytes));
    return { ...zip, ...(await readDirectory(zip, limits)) };
  } catch (error) {
    throw toZipError(error);
  }
}

const bufferReader = (bytes: Buffer) =>
  createByteReader(bytes.length, async (start, end) => bytes.subarray(start, end));

async function fileReader(file: FileHandle) {
  const { size } = await file.stat();
  return createByteReader(size, async (start, end) => {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(end - start), 0, end - start, start);
    return buffer.subarray(0, bytesRead);
  });
}

const chunkBytes = 65_536;

/**
 * Reads the content of a file in a zip. Yields never more than the size in the central directory, and the sum of those
 * sizes has been checked, so the total that is unpacked is within the limits. Throws `invalid_zip` if the size or the
 * checksum differs from those in the directory, at the end at the latest.
 */
export async function* readContent(zip: CheckedZip, entry: ZipEntry): AsyncGenerator<Buffer> {
  let bytes = 0;
  let checksum = 0;
  try {
    for await (const chunk of await openContent(zip, entry)) {
      bytes += chunk.length;
      if (bytes > entry.unpackedBytes) throw tooLarge(entry);
      checksum = crc32(chunk, checksum);
      yield chunk;
    }
  } catch (error) {
    const converted = toFileSystemError('read the zip file', error);
    if (converted instanceof BursarError) throw converted;
    throw invalidEntry(entry.path, 'is damaged', 'Create the zip again and send all of it.', error);
  }
  if (bytes < entry.unpackedBytes) throw mismatch(entry, 'is smaller than the zip declares');
  if (checksum !== entry.crc32) throw mismatch(entry, 'has a wrong checksum');
}

/** Reads the first bytes of a file. With `isVerified`, reads the file to its end, as `readContent` does. */
export async function readStart(
  zip: CheckedZip,
  entry: ZipEntry,
  maxBytes: number,
  isVerified: boolean,
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of readContent(zip, entry)) {
    if (length < maxBytes) chunks.push(chunk);
    length += chunk.length;
    if (length >= maxBytes && !isVerified) break;
  }
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

const tooLarge = (entry: ZipEntry) => mismatch(entry, 'is larger than the zip declares');

function mismatch({ path }: ZipEntry, problem: string): BursarError {
  return invalidEntry(path, problem, 'The zip is damaged or forged: create it again and send all of it.');
}

/** Large contents are inflated by threads of zlib, in chunks. */
async function openContent(zip: CheckedZip, entry: ZipEntry): Promise<Iterable<Buffer> | AsyncIterable<Buffer>> {
  const { start, packedBytes, unpackedBytes } = entry;
  const isPacked = entry.isDeflated && packedBytes > 0;
  // yauzl needs no more of an entry for that. All of it would take ten times the memory.
  const header = { relativeOffsetOfLocalHeader: start, compressedSize: packedBytes } as Entry;
  const { fileDataStart } = await zip.zipFile.readLocalFileHeaderPromise(header, { minimal: true });
  // Most files are small: setting up a stream would take longer than inflating them.
  if (Math.max(packedBytes, unpackedBytes) <= chunkBytes) {
    const packed = await zip.reader.read(fileDataStart, packedBytes);
    if (packed.length < packedBytes) throw unexpectedEnd();
    return [isPacked ? inflateSync(packed, entry) : packed];
  }
  const packed = readPacked(zip, fileDataStart, fileDataStart + packedBytes);
  return isPacked ? pipeline(packed, createInflateRaw({ chunkSize: chunkBytes }), () => undefined) : packed;
}

function inflateSync(packed: Buffer, entry: ZipEntry): Buffer {
  try {
    // Allocates exactly the output size. By default zlib allocates 16 kB a file, which burdens the garbage collector.
    const options = {
      maxOutputLength: Math.max(1, entry.unpackedBytes),
      chunkSize: Math.max(64, entry.unpackedBytes + 1),
    };
    return inflateRawSync(packed, options);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge(entry) : error;
  }
}

async function* readPacked({ reader }: CheckedZip, start: number, end: number): AsyncGenerator<Buffer> {
  for (let position = start; position < end; ) {
    const chunk = await reader.read(position, Math.min(chunkBytes, end - position));
    if (chunk.length === 0) throw unexpectedEnd();
    position += chunk.length;
    yield chunk;
  }
}

const unexpectedEnd = () => new Error('unexpected end of file');
