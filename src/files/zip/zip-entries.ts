import type { Entry } from 'yauzl';
import { invalidEntry, invalidZip } from './zip-errors.ts';
import { type EntryName, parseEntryName } from './zip-names.ts';
import { nextHeaderOffset, type OpenZip } from './zip-reader.ts';

export interface ZipLimits {
  maxEntries: number;
  maxUnpackedBytes: number;
  /** The most that anything larger than a megabyte may grow by when it is unpacked. */
  maxRatio: number;
}

/** One entry that is acceptable by itself; whether it goes with the others is for `inspectZip` to say. */
export interface ParsedZipEntry {
  path: string;
  kind: 'file' | 'folder';
  isExecutable: boolean;
  isDeflated: boolean;
  unpackedBytes: number;
  packedBytes: number;
  crc32: number;
  /** Where its local header begins, and the first byte that can belong to something else. */
  start: number;
  end: number;
  header: Entry;
}

const stored = 0;
const deflated = 8;
/** Either kind of encryption, and headers that are masked because the directory is encrypted. */
const encryptionFlags = 0x1 | 0x40 | 0x2000;
const localHeaderBytes = 30;
const centralHeaderSignature = 0x02014b50;
/** Below this a high ratio is a small repetitive file, and harmless. */
const ratioFreeBytes = 1_000_000;

/**
 * Reads the central directory entry by entry, holding only one at a time. Throws `invalid_zip` at the first one
 * that is not acceptable, and before reading any when there are too many.
 */
export async function* readEntries(open: OpenZip, limits: ZipLimits): AsyncGenerator<ParsedZipEntry> {
  const { zip } = open;
  if (zip.entryCount > limits.maxEntries) {
    const found = `The zip file has ${zip.entryCount} entries, and at most ${limits.maxEntries} are taken`;
    throw invalidZip(`${found}. Pack many small files into one, such as a tar file.`);
  }
  for await (const header of zip.eachEntry()) yield readEntry(open, header, limits);
  await refuseMoreEntries(open);
}

function readEntry(open: OpenZip, header: Entry, limits: ZipLimits): ParsedZipEntry {
  const name = parseEntryName(header);
  const { path } = name;
  refuseEncoding(path, header);
  const mode = header.externalFileAttributes >>> 16;
  const start = header.relativeOffsetOfLocalHeader;
  const entry: ParsedZipEntry = {
    path,
    kind: readKind(name, mode),
    isExecutable: (mode & 0o111) !== 0,
    isDeflated: header.compressionMethod === deflated,
    unpackedBytes: header.uncompressedSize,
    packedBytes: header.compressedSize,
    crc32: header.crc32,
    start,
    // The extra fields of the local header come on top, but the directory does not say how long they are.
    end: start + localHeaderBytes + header.fileNameLength + header.compressedSize,
    header,
  };
  refuseSizes(open, entry, limits);
  return entry;
}

function refuseEncoding(path: string, header: Entry) {
  if ((header.generalPurposeBitFlag & encryptionFlags) !== 0) {
    throw invalidEntry(path, 'is encrypted', 'Make the zip without a password.');
  }
  if (header.compressionMethod !== stored && header.compressionMethod !== deflated) {
    const problem = `is compressed by method ${header.compressionMethod}, which is not understood here`;
    throw invalidEntry(path, problem, 'Make the zip with "deflate" compression, or none.');
  }
}

/** Goes by the Unix mode whatever system the zip claims to come from: a link is a link. */
function readKind({ path, isFolder }: EntryName, mode: number): ParsedZipEntry['kind'] {
  switch (mode & 0o170000) {
    case 0:
    case 0o100000:
      return isFolder ? 'folder' : 'file';
    case 0o040000:
      if (isFolder) return 'folder';
      throw invalidEntry(path, 'is a folder without the name of one', 'Make the zip again with another tool.');
    case 0o120000:
      throw invalidEntry(path, 'is a symbolic link', 'Make the zip with the file that the link points to.');
    default:
      throw invalidEntry(path, 'is neither a file nor a folder', 'Leave it out of the zip.');
  }
}

function refuseSizes(open: OpenZip, entry: ParsedZipEntry, limits: ZipLimits) {
  const { path, kind, isDeflated, unpackedBytes, packedBytes, end } = entry;
  const again = 'Make the zip again, and send all of it.';
  if (end > open.directoryStart) {
    throw invalidEntry(path, 'lies outside the file', again);
  }
  if (!isDeflated && unpackedBytes !== packedBytes) {
    throw invalidEntry(path, 'is stored as it is, and yet has two sizes', again);
  }
  if (kind === 'folder' && unpackedBytes !== 0) {
    throw invalidEntry(path, 'is a folder with content', again);
  }
  if (!Number.isSafeInteger(unpackedBytes) || unpackedBytes > limits.maxUnpackedBytes) {
    throw invalidEntry(path, `unpacks to more than ${limits.maxUnpackedBytes} bytes`, 'Send less data.');
  }
  if (exceedsMaxRatio(unpackedBytes, packedBytes, limits)) {
    const problem = `unpacks to more than ${limits.maxRatio} times its size`;
    throw invalidEntry(path, problem, 'Generate such data in the job instead of sending it.');
  }
}

export function exceedsMaxRatio(unpackedBytes: number, packedBytes: number, limits: ZipLimits): boolean {
  return unpackedBytes > ratioFreeBytes && unpackedBytes / packedBytes > limits.maxRatio;
}

/** Old tools count entries modulo 65,536: to go by the count would lose files without a word. */
async function refuseMoreEntries({ zip, bytes }: OpenZip) {
  const next = await bytes.read(nextHeaderOffset(zip), 4);
  if (next.length === 4 && next.readUInt32LE(0) === centralHeaderSignature) {
    throw invalidZip('The zip file has more entries than it says. Make it again with a tool that writes zip64.');
  }
}
