import { mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { crc32, createInflateRaw, inflateRawSync } from 'node:zlib';
import { BursarError } from '../../domain/errors.ts';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { inspectZip } from './inspect-zip.ts';
import { type ParsedZipEntry, readEntries, type ZipLimits } from './zip-entries.ts';
import { invalidEntry } from './zip-errors.ts';
import type { OpenZip } from './zip-reader.ts';
import { withZip, type ZipSource } from './zip-source.ts';

/**
 * Unpacks a zip into a folder, which must exist, be empty, and be used by nobody else meanwhile. After success the folder
 * contains the whole zip, and every file has the size and checksum that the zip declares. After a failure or a crash
 * some files may exist, and the caller deletes them. Nothing is ever written outside the folder, and never more than
 * `maxUnpackedBytes`. Modes are 0700 for folders, 0644 or 0755 for files, minus the umask.
 *
 * Failures: `invalid_zip` for everything that `inspectZip` rejects, and for content that contradicts the directory.
 */
export async function unpackZip(source: ZipSource, directory: string, limits: ZipLimits): Promise<void> {
  // The complete check comes first, so that nothing is written for an invalid zip.
  await inspectZip(source, limits);
  await withZip(source, async (zip) => {
    let lastFolder = directory;
    for await (const entry of readEntries(zip, limits)) {
      const target = join(directory, entry.path);
      const folder = entry.kind === 'folder' ? target : dirname(target);
      try {
        if (folder !== lastFolder) await mkdir(folder, { recursive: true, mode: 0o700 });
        lastFolder = folder;
        if (entry.kind === 'file') await unpackFile(zip, entry, target);
      } catch (error) {
        throw toUnpackError(entry, error);
      }
    }
  });
}

/** Reads the first bytes of a file. Does not verify its checksum. */
export async function readStart(zip: OpenZip, entry: ParsedZipEntry, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  const collect = async (content: Content) => {
    for await (const chunk of content) {
      chunks.push(chunk);
      length += chunk.length;
      if (length >= maxBytes) return;
    }
  };
  // The pipeline reports an error if a long file is not read to its end.
  await unpackEntry(zip, entry, collect).catch((error) => {
    if (length < maxBytes) throw error;
  });
  return Buffer.concat(chunks).subarray(0, maxBytes);
}

/**
 * Reads a file and verifies its size and checksum. Throws `invalid_zip` if the zip declares others. Returns the content
 * of a small file.
 */
export async function verifyFile(zip: OpenZip, entry: ParsedZipEntry): Promise<Buffer | undefined> {
  try {
    if (!isSmall(entry)) {
      await unpackEntry(zip, entry, (chunks) => readVerified(chunks, entry, () => undefined));
      return undefined;
    }
    const content = await readSmall(zip, entry);
    verify(entry, content.length, crc32(content));
    return content;
  } catch (error) {
    throw toUnpackError(entry, error);
  }
}

async function unpackFile(zip: OpenZip, entry: ParsedZipEntry, target: string) {
  // Exclusive creation (O_EXCL) also does not follow a link.
  const file = await open(target, 'wx', entry.isExecutable ? 0o755 : 0o644);
  try {
    await unpackEntry(zip, entry, (chunks) => readVerified(chunks, entry, (chunk) => file.appendFile(chunk)));
  } finally {
    await file.close();
  }
}

/**
 * Passes the content of a file on, and verifies its size and checksum. No entry may exceed its size in the central
 * directory. The sum of those sizes has been checked, so the total that is unpacked is within the limits.
 */
async function readVerified(
  chunks: Content,
  entry: ParsedZipEntry,
  use: (chunk: Buffer) => Promise<void> | undefined,
): Promise<void> {
  let bytes = 0;
  let checksum = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > entry.unpackedBytes) throw tooLarge(entry);
    checksum = crc32(chunk, checksum);
    await use(chunk);
  }
  verify(entry, bytes, checksum);
}

function verify(entry: ParsedZipEntry, bytes: number, checksum: number): void {
  if (bytes > entry.unpackedBytes) throw tooLarge(entry);
  if (bytes < entry.unpackedBytes) throw mismatch(entry, 'is smaller than the zip declares');
  if (checksum !== entry.crc32) throw mismatch(entry, 'has a wrong checksum');
}

const tooLarge = (entry: ParsedZipEntry) => mismatch(entry, 'is larger than the zip declares');

function mismatch({ path }: ParsedZipEntry, problem: string): BursarError {
  return invalidEntry(path, problem, 'The zip is damaged or forged: create it again and send all of it.');
}

const chunkBytes = 65_536;

type Content = Iterable<Buffer> | AsyncIterable<Buffer>;

/** Calls `use` with the unpacked content of an entry. Large contents are inflated by threads of zlib, in chunks. */
async function unpackEntry(
  zip: OpenZip,
  entry: ParsedZipEntry,
  use: (content: Content) => Promise<void>,
): Promise<void> {
  const { isDeflated, packedBytes } = entry;
  // Most files are small: setting up generators and streams would take longer than inflating them.
  if (isSmall(entry)) await use([await readSmall(zip, entry)]);
  else if (!isDeflated || packedBytes === 0) await use(readContent(zip, entry));
  else await pipeline(readContent(zip, entry), createInflateRaw(), use);
}

const isSmall = ({ packedBytes, unpackedBytes }: ParsedZipEntry) => Math.max(packedBytes, unpackedBytes) <= chunkBytes;

async function readSmall(zip: OpenZip, entry: ParsedZipEntry): Promise<Buffer> {
  const { packedBytes } = entry;
  const packed = await zip.reader.read(await findContent(zip, entry), packedBytes);
  if (packed.length < packedBytes) throw unexpectedEnd();
  return entry.isDeflated && packedBytes > 0 ? inflateSync(packed, entry) : packed;
}

function inflateSync(packed: Buffer, entry: ParsedZipEntry): Buffer {
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

async function* readContent(zip: OpenZip, entry: ParsedZipEntry): AsyncGenerator<Buffer> {
  const start = await findContent(zip, entry);
  const end = start + entry.packedBytes;
  for (let position = start; position < end; ) {
    const chunk = await zip.reader.read(position, Math.min(chunkBytes, end - position));
    if (chunk.length === 0) throw unexpectedEnd();
    position += chunk.length;
    yield chunk;
  }
}

async function findContent({ zip }: OpenZip, { header }: ParsedZipEntry): Promise<number> {
  return (await zip.readLocalFileHeaderPromise(header, { minimal: true })).fileDataStart;
}

const unexpectedEnd = () => new Error('unexpected end of file');

/** Errors for names that the file system rejects, or does not distinguish (such as `a` and `A`). */
const nameErrorCodes = new Set(['EEXIST', 'EILSEQ', 'EINVAL', 'EISDIR', 'ENAMETOOLONG', 'ENOTDIR']);

function toUnpackError(entry: ParsedZipEntry, error: unknown): unknown {
  if (error instanceof BursarError) return error;
  const code = fileSystemErrorCode(error);
  if (code === undefined) {
    return invalidEntry(entry.path, 'is damaged', 'Create the zip again and send all of it.', error);
  }
  if (nameErrorCodes.has(code)) {
    return invalidEntry(
      entry.path,
      `has a name that the file system does not accept (${code})`,
      'Rename it and create the zip again.',
      error,
    );
  }
  return toFileSystemError('unpack the zip file', error);
}
