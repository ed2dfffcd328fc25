import { isUtf8 } from 'node:buffer';
import { type Entry, getFileNameLowLevel } from 'yauzl';
import { toPrintable } from '../../domain/errors.ts';
import { formatBytes } from '../../domain/format-amount.ts';
import { invalidEntry } from './zip-errors.ts';

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
/** A high ratio is harmless for smaller sizes, and common for repetitive files. */
const minRatioCheckBytes = 1_000_000;

/** The data of all entries must end before `directoryStart`. Throws `invalid_zip` if the entry is not valid by itself. */
export function parseEntry(header: Entry, directoryStart: number, limits: ZipLimits): ZipEntry {
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
  checkSizes(entry, directoryStart, limits);
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

function checkSizes(entry: ZipEntry, directoryStart: number, limits: ZipLimits) {
  const { path, kind, isDeflated, unpackedBytes, packedBytes, end } = entry;
  const recreate = 'Create the zip again and send all of it.';
  if (end > directoryStart) {
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

const maxPathBytes = 1024;
const maxSegmentBytes = 255;
const utf8Flag = 0x800;

const useRelativePath = 'Create the zip with relative paths, such as data/input.txt.';
const renameFile = 'Rename it and create the zip again.';

interface EntryName {
  /** Has neither `.`, `..` nor empty segments, so it is safe to join to a folder. '' is the folder itself. */
  path: string;
  /** The names of folders end with a slash. */
  isFolder: boolean;
}

/** Decodes and checks the name of an entry. Throws `invalid_zip` if the name is not acceptable. */
export function parseEntryName(entry: Entry): EntryName {
  return parseName(decodeName(entry), entry.fileNameRaw);
}

/** Checks a name, with the bytes that it was decoded from. Throws `invalid_zip` if the name is not acceptable. */
export function parseName(name: string, raw: Buffer): EntryName {
  if (raw.length > maxPathBytes || Buffer.byteLength(name) > maxPathBytes) {
    throw invalidEntry(name, `has a path of more than ${maxPathBytes} bytes`, 'Use shorter names or fewer folders.');
  }
  if (hasControlCharacters(raw, name)) {
    throw invalidEntry(name, 'has control characters in its name', renameFile);
  }
  if (name.includes('\\')) {
    throw invalidEntry(
      name,
      'has a backslash in its name',
      'Create the zip with a tool that separates folders with "/".',
    );
  }
  if (name.startsWith('/') || /^[a-z]:/i.test(name)) {
    throw invalidEntry(name, 'has an absolute path', useRelativePath);
  }
  const segments = name.split('/').filter((segment) => segment !== '' && segment !== '.');
  for (const segment of segments) checkSegment(name, segment);
  const isFolder = name.endsWith('/');
  if (segments.length === 0 && !isFolder) {
    throw invalidEntry(name, 'has no name', renameFile);
  }
  return { path: segments.join('/'), isFolder };
}

function checkSegment(name: string, segment: string) {
  if (segment === '..') {
    throw invalidEntry(name, 'has a path that leaves its folder (..)', useRelativePath);
  }
  if (Buffer.byteLength(segment) > maxSegmentBytes) {
    throw invalidEntry(name, `has a name of more than ${maxSegmentBytes} bytes`, 'Use shorter names.');
  }
  if (/^(con|prn|aux|nul|com[1-9]|lpt[1-9])$/i.test(segment)) {
    throw invalidEntry(name, 'has a name that is reserved for a device', renameFile);
  }
}

/** The name of an entry for people, even if it is not acceptable. */
export function describeName({ generalPurposeBitFlag: flags, fileNameRaw: raw, extraFields }: Entry): string {
  const decodable = isUtf8(raw) ? flags | utf8Flag : flags & ~utf8Flag;
  return toPrintable(getFileNameLowLevel(decodable, raw, extraFields, true), maxPathBytes);
}

/** By the specification names without the UTF-8 flag are in code page 437, but macOS writes UTF-8 without the flag. */
function decodeName(entry: Entry): string {
  const flags = entry.generalPurposeBitFlag;
  const isValidUtf8 = isUtf8(entry.fileNameRaw);
  const decode = (asUtf8: boolean) =>
    getFileNameLowLevel(asUtf8 ? flags | utf8Flag : flags & ~utf8Flag, entry.fileNameRaw, entry.extraFields, true);
  if ((flags & utf8Flag) !== 0 && !isValidUtf8) {
    throw invalidEntry(decode(false), 'has a name that is marked as UTF-8 but is not valid UTF-8', renameFile);
  }
  return decode(isValidUtf8);
}

/** Checks the raw bytes as well, because code page 437 decodes control characters to printable symbols. */
function hasControlCharacters(raw: Buffer, name: string): boolean {
  return raw.some((byte) => byte < 0x20 || byte === 0x7f) || /\p{Cc}/u.test(name);
}
