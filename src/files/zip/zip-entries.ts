import type { Entry } from 'yauzl';
import { formatBytes } from '../../domain/format-amount.ts';
import { invalidEntry, invalidZip } from './zip-errors.ts';
import { type EntryName, parseEntryName } from './zip-names.ts';
import { nextHeaderOffset, type OpenZip } from './zip-reader.ts';

export interface ZipLimits {
  maxEntries: number;
  maxUnpackedBytes: number;
  /** Maximum ratio of unpacked to packed size. Applies only to more than a megabyte of unpacked data. */
  maxRatio: number;
}

/** An entry that is valid by itself. `readDirectory` checks for conflicts between entries. */
export interface ZipEntry {
  path: string;
  kind: 'file' | 'folder';
  isExecutable: boolean;
  isDeflated: boolean;
  unpackedBytes: number;
  packedBytes: number;
  crc32: number;
  /** Position of the local header, and the first position that another entry may use. */
  start: number;
  end: number;
}

const methodStored = 0;
const methodDeflated = 8;
/** Traditional encryption, strong encryption, and headers masked because the central directory is encrypted. */
const encryptionFlags = 0x1 | 0x40 | 0x2000;
const localHeaderBytes = 30;
const centralHeaderSignature = 0x02014b50;
/** A high ratio is harmless for smaller sizes, and common for repetitive files. */
const minRatioCheckBytes = 1_000_000;

/** Reads the headers of the entries. Throws `invalid_zip` if there are too many, or more than the zip declares. */
export async function* readHeaders(zip: OpenZip, limits: ZipLimits): AsyncGenerator<Entry> {
  const { zipFile } = zip;
  if (zipFile.entryCount > limits.maxEntries) {
    const problem = `The zip file has ${zipFile.entryCount} entries, and at most ${limits.maxEntries} are allowed`;
    throw invalidZip(`${problem}. Pack many small files into one, such as a tar file.`);
  }
  yield* zipFile.eachEntry();
  await rejectExtraEntries(zip);
}

/** Throws `invalid_zip` if the entry is not valid by itself. */
export function parseEntry(zip: OpenZip, header: Entry, limits: ZipLimits): ZipEntry {
  const name = parseEntryName(header);
  const { path } = name;
  checkEncoding(path, header);
  const mode = header.externalFileAttributes >>> 16;
  const start = header.relativeOffsetOfLocalHeader;
  const entry: ZipEntry = {
    path,
    kind: readKind(name, mode),
    isExecutable: (mode & 0o111) !== 0,
    isDeflated: header.compressionMethod === methodDeflated,
    unpackedBytes: header.uncompressedSize,
    packedBytes: header.compressedSize,
    crc32: header.crc32,
    start,
    // A lower bound: the local header may have extra fields, whose length the central directory does not contain.
    end: start + localHeaderBytes + header.fileNameLength + header.compressedSize,
  };
  checkSizes(zip, entry, limits);
  return entry;
}

function checkEncoding(path: string, header: Entry) {
  if ((header.generalPurposeBitFlag & encryptionFlags) !== 0) {
    throw invalidEntry(path, 'is encrypted', 'Create the zip without a password.');
  }
  if (header.compressionMethod !== methodStored && header.compressionMethod !== methodDeflated) {
    const problem = `uses compression method ${header.compressionMethod}, which is not supported`;
    throw invalidEntry(path, problem, 'Create the zip with "deflate" compression, or none.');
  }
}

/** Uses the Unix mode even if the zip claims another operating system, so that no link goes undetected. */
function readKind({ path, isFolder }: EntryName, mode: number): ZipEntry['kind'] {
  switch (mode & 0o170000) {
    case 0:
    case 0o100000:
      return isFolder ? 'folder' : 'file';
    case 0o040000:
      if (isFolder) return 'folder';
      throw invalidEntry(
        path,
        'is a folder, but its name does not end with a slash',
        'Create the zip with another tool.',
      );
    case 0o120000:
      throw invalidEntry(path, 'is a symbolic link', 'Create the zip with the file that the link points to.');
    default:
      throw invalidEntry(path, 'is neither a file nor a folder', 'Leave it out of the zip.');
  }
}

function checkSizes(zip: OpenZip, entry: ZipEntry, limits: ZipLimits) {
  const { path, kind, isDeflated, unpackedBytes, packedBytes, end } = entry;
  const recreate = 'Create the zip again and send all of it.';
  if (end > zip.directoryStart) {
    throw invalidEntry(path, 'extends past the data of the zip file', recreate);
  }
  if (!isDeflated && unpackedBytes !== packedBytes) {
    throw invalidEntry(path, 'is not compressed, but its two sizes differ', recreate);
  }
  // Deflate never needs more. Reading an entry of many empty blocks would take long, although it unpacks to nothing.
  if (packedBytes > unpackedBytes * 1.25 + 1000) {
    throw invalidEntry(path, 'is much larger than its content', recreate);
  }
  if (kind === 'folder' && unpackedBytes !== 0) {
    throw invalidEntry(path, 'is a folder with content', recreate);
  }
  if (!Number.isSafeInteger(unpackedBytes) || unpackedBytes > limits.maxUnpackedBytes) {
    throw invalidEntry(path, `unpacks to more than ${formatBytes(limits.maxUnpackedBytes)}`, 'Send less data.');
  }
  if (exceedsMaxRatio(unpackedBytes, packedBytes, limits)) {
    const problem = `unpacks to more than ${limits.maxRatio} times its size`;
    throw invalidEntry(path, problem, 'Generate such data in the job instead of sending it.');
  }
}

export function exceedsMaxRatio(unpackedBytes: number, packedBytes: number, limits: ZipLimits): boolean {
  return unpackedBytes > minRatioCheckBytes && unpackedBytes / packedBytes > limits.maxRatio;
}

/** Old tools store the number of entries modulo 65,536. Trusting that number would silently lose files. */
async function rejectExtraEntries({ zipFile, reader }: OpenZip) {
  const next = await reader.read(nextHeaderOffset(zipFile), 4);
  if (next.length === 4 && next.readUInt32LE(0) === centralHeaderSignature) {
    throw invalidZip('The zip file has more entries than it declares. Create it with a tool that supports zip64.');
  }
}
