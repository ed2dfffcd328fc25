import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import { BursarError } from '../../domain/errors.ts';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { checkCentralDirectory, inspectZip, type ZipSummary } from './zip-directory.ts';
import { type ParsedZipEntry, readEntries, type ZipLimits } from './zip-entries.ts';
import { invalidEntry } from './zip-errors.ts';
import { type OpenZip, withZip } from './zip-reader.ts';
import type { ZipSource } from './zip-source.ts';

/**
 * Unpacks into a folder that exists, is empty and is nobody else's meanwhile. After success all of the zip is
 * there, every file with the size and checksum that the zip says. After a failure or a crash part of it is
 * there, and the caller removes it. Nothing is ever written outside the folder, and never more than
 * `maxUnpackedBytes`. Modes are 0700, 0644 and 0755, less the umask.
 *
 * Failures: `invalid_zip`, for all that `inspectZip` refuses and for content that is not what the directory says.
 */
export async function unpackZip(content: ZipSource, directory: string, limits: ZipLimits): Promise<void> {
  // The whole directory first: a zip that will be refused should not cost the writing of half of it.
  await inspectZip(content, limits);
  await withZip(content, async (zip) => {
    let lastFolder = directory;
    for await (const entry of readEntries(zip, limits)) {
      const target = join(directory, entry.path);
      const folder = entry.kind === 'folder' ? target : dirname(target);
      try {
        if (folder !== lastFolder) await mkdir(folder, { recursive: true, mode: 0o700 });
        lastFolder = folder;
        if (entry.kind === 'file') await unpackFile(zip, entry, target);
      } catch (error) {
        throw unpackTrouble(entry, error);
      }
    }
  });
}

/**
 * As `inspectZip`, with the first bytes of one of the files; null when there is no such file. For a look at a script before
 * its job is taken: a checksum that does not fit is found when it is unpacked.
 */
export async function inspectZipAndReadStart(
  content: ZipSource,
  name: string,
  bytes: number,
  limits: ZipLimits,
): Promise<ZipSummary & { fileStart: Buffer | null }> {
  return await withZip(content, async (zip) => {
    let named: ParsedZipEntry | null = null;
    const summary = await checkCentralDirectory(zip, limits, (entry) => {
      if (entry.kind === 'file' && entry.path === name) named = entry;
    });
    return { ...summary, fileStart: named && (await startOf(zip, named, bytes)) };
  });
}

async function startOf(zip: OpenZip, entry: ParsedZipEntry, bytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const collect = async (content: AsyncIterable<Buffer>) => {
    for await (const chunk of content) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= bytes) return;
    }
  };
  // To stop reading a long one is an error to those who hand it over.
  await unpackEntry(zip, entry, collect).catch((error) => {
    if (length < bytes) throw error;
  });
  return Buffer.concat(chunks).subarray(0, bytes);
}

async function unpackFile(zip: OpenZip, entry: ParsedZipEntry, target: string) {
  // Exclusive creation also refuses to go through a link.
  const file = await open(target, 'wx', entry.isExecutable ? 0o755 : 0o644);
  try {
    await unpackEntry(zip, entry, (chunks) => writeChecked(chunks, file, entry));
  } finally {
    await file.close();
  }
}

/**
 * No entry may grow past the size in the directory, and their sum is within the limits already, so that what is
 * written in all is within the limits too.
 */
async function writeChecked(chunks: AsyncIterable<Buffer>, file: FileHandle, entry: ParsedZipEntry) {
  let bytes = 0;
  let checksum = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > entry.unpackedBytes) throw tooLarge(entry);
    checksum = crc32(chunk, checksum);
    await file.appendFile(chunk);
  }
  if (bytes < entry.unpackedBytes) throw forged(entry, 'is smaller than the zip says');
  if (checksum !== entry.crc32) throw forged(entry, 'has a wrong checksum');
}

const tooLarge = (entry: ParsedZipEntry) => forged(entry, 'is larger than the zip says');

function forged({ path }: ParsedZipEntry, problem: string): BursarError {
  return invalidEntry(path, problem, 'The zip is damaged or forged: make it again, and send all of it.');
}

const pieceBytes = 65_536;

/** Hands an entry's content over, unpacked. */
async function unpackEntry(
  zip: OpenZip,
  entry: ParsedZipEntry,
  use: (content: AsyncIterable<Buffer>) => Promise<void>,
): Promise<void> {
  const packed = readContent(zip, entry);
  if (!entry.isDeflated || entry.packedBytes === 0) await use(packed);
  else if (Math.max(entry.packedBytes, entry.unpackedBytes) <= pieceBytes) await use(inflateAtOnce(packed, entry));
  else await pipeline(packed, createInflateRaw(), use);
}

/** Most files are small: to set up a stream takes longer than to inflate them. */
async function* inflateAtOnce(packed: AsyncIterable<Buffer>, entry: ParsedZipEntry): AsyncGenerator<Buffer> {
  const pieces = await Array.fromAsync(packed);
  yield inflated(Buffer.concat(pieces), entry);
}

function inflated(packed: Buffer, entry: ParsedZipEntry): Buffer {
  try {
    // Room for all of it at once, and no more: otherwise each takes 16 kB, which the garbage collector has to notice.
    const room = {
      maxOutputLength: Math.max(1, entry.unpackedBytes),
      chunkSize: Math.max(64, entry.unpackedBytes + 1),
    };
    return inflateRawSync(packed, room);
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? tooLarge(entry) : error;
  }
}

async function* readContent({ zip, bytes }: OpenZip, entry: ParsedZipEntry): AsyncGenerator<Buffer> {
  const { fileDataStart } = await zip.readLocalFileHeaderPromise(entry.header, { minimal: true });
  const end = fileDataStart + entry.packedBytes;
  for (let position = fileDataStart; position < end; ) {
    const piece = await bytes.read(position, Math.min(pieceBytes, end - position));
    if (piece.length === 0) throw new Error('unexpected end of file');
    position += piece.length;
    yield piece;
  }
}

/** What a file system says of names that it cannot take, or takes for one another (such as `a` and `A`). */
const nameCodes = new Set(['EEXIST', 'EILSEQ', 'EINVAL', 'EISDIR', 'ENAMETOOLONG', 'ENOTDIR']);

function unpackTrouble(entry: ParsedZipEntry, error: unknown): unknown {
  if (error instanceof BursarError) return error;
  const code = fileSystemErrorCode(error);
  if (code === undefined) {
    return invalidEntry(entry.path, 'is damaged', 'Make the zip again, and send all of it.', error);
  }
  if (nameCodes.has(code)) {
    return invalidEntry(entry.path, `cannot have this name here (${code})`, 'Rename it and make the zip again.', error);
  }
  return toFileSystemError('unpack the zip file', error);
}
