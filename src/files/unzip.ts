import { type FileHandle, mkdir, open } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { crc32, createInflateRaw } from 'node:zlib';
import { BursarError } from '../domain/errors.ts';
import { diskCode, diskTrouble } from './disk-trouble.ts';
import { invalidEntry } from './invalid-zip.ts';
import { inspectZip } from './zip-directory.ts';
import { readEntries, type ZipEntry, type ZipLimits } from './zip-entries.ts';
import { type OpenZip, withZip } from './zip-reader.ts';

/**
 * Unpacks into a folder that exists, is empty and is nobody else's meanwhile. After success all of the zip is
 * there, every file with the size and checksum that the zip says. After a failure or a crash part of it is
 * there, and the caller removes it. Nothing is ever written outside the folder, and never more than
 * `maxUnpackedBytes`. Modes are 0700, 0644 and 0755, less the umask.
 *
 * Failures: `invalid_zip`, for all that `inspectZip` refuses and for content that is not what the directory says.
 */
export async function unpackZip(path: string, directory: string, limits: ZipLimits): Promise<void> {
  // The whole directory first: a zip that will be refused should not cost the writing of half of it.
  await inspectZip(path, limits);
  await withZip(path, async (zip) => {
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
 * The first bytes of one file of a zip that has passed `inspectZip`; null when there is no such file. For a look at a
 * script before its job is taken: a checksum that does not fit is found when it is unpacked.
 */
export async function readStart(path: string, name: string, bytes: number, limits: ZipLimits): Promise<Buffer | null> {
  return await withZip(path, async (zip) => {
    for await (const entry of readEntries(zip, limits)) {
      if (entry.kind !== 'file' || entry.path !== name) continue;
      const chunks: Buffer[] = [];
      let length = 0;
      const collect = async (content: AsyncIterable<Buffer>) => {
        for await (const chunk of content) {
          chunks.push(chunk);
          length += chunk.length;
          if (length >= bytes) return;
        }
      };
      const source = readContent(zip, entry);
      if (entry.isDeflated && entry.packedBytes > 0) await pipeline(source, createInflateRaw(), collect);
      else await pipeline(source, collect);
      return Buffer.concat(chunks).subarray(0, bytes);
    }
    return null;
  });
}

async function unpackFile(zip: OpenZip, entry: ZipEntry, target: string) {
  // Exclusive creation also refuses to go through a link.
  const file = await open(target, 'wx', entry.isExecutable ? 0o755 : 0o644);
  try {
    const write = (chunks: AsyncIterable<Buffer>) => writeChecked(chunks, file, entry);
    const source = readContent(zip, entry);
    if (entry.isDeflated && entry.packedBytes > 0) await pipeline(source, createInflateRaw(), write);
    else await pipeline(source, write);
  } finally {
    await file.close();
  }
}

/**
 * No entry may grow past the size in the directory, and their sum is within the limits already, so that what is
 * written in all is within the limits too.
 */
async function writeChecked(chunks: AsyncIterable<Buffer>, file: FileHandle, entry: ZipEntry) {
  const remedy = 'The zip is damaged or forged: make it again, and send all of it.';
  let bytes = 0;
  let checksum = 0;
  for await (const chunk of chunks) {
    bytes += chunk.length;
    if (bytes > entry.unpackedBytes) throw invalidEntry(entry.path, 'is larger than the zip says', remedy);
    checksum = crc32(chunk, checksum);
    await file.appendFile(chunk);
  }
  if (bytes < entry.unpackedBytes) throw invalidEntry(entry.path, 'is smaller than the zip says', remedy);
  if (checksum !== entry.crc32) throw invalidEntry(entry.path, 'has a wrong checksum', remedy);
}

const pieceBytes = 65_536;

async function* readContent({ zip, file }: OpenZip, entry: ZipEntry): AsyncGenerator<Buffer> {
  const { fileDataStart } = await zip.readLocalFileHeaderPromise(entry.header, { minimal: true });
  const end = fileDataStart + entry.packedBytes;
  for (let position = fileDataStart; position < end; ) {
    const piece = Buffer.allocUnsafe(Math.min(pieceBytes, end - position));
    const { bytesRead } = await file.read(piece, 0, piece.length, position);
    if (bytesRead === 0) throw new Error('unexpected end of file');
    position += bytesRead;
    yield piece.subarray(0, bytesRead);
  }
}

/** What a file system says of names that it cannot take, or takes for one another (such as `a` and `A`). */
const nameCodes = new Set(['EEXIST', 'EILSEQ', 'EINVAL', 'EISDIR', 'ENAMETOOLONG', 'ENOTDIR']);

function unpackTrouble(entry: ZipEntry, error: unknown): unknown {
  if (error instanceof BursarError) return error;
  const code = diskCode(error);
  if (code === undefined) {
    return invalidEntry(entry.path, 'is damaged', 'Make the zip again, and send all of it.', error);
  }
  if (nameCodes.has(code)) {
    return invalidEntry(entry.path, `cannot have this name here (${code})`, 'Rename it and make the zip again.', error);
  }
  return diskTrouble('unpack the zip file', error);
}
