import { isUtf8 } from 'node:buffer';
import { type Entry, getFileNameLowLevel } from 'yauzl';
import { invalidEntry, toPrintable } from './zip-errors.ts';

const maxPathBytes = 1024;
const maxSegmentBytes = 255;
const utf8Flag = 0x800;

const useRelativePath = 'Create the zip with relative paths, such as data/input.txt.';
const renameFile = 'Rename it and create the zip again.';

export interface EntryName {
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

/** The name of an entry for people, also if it is not acceptable. */
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
