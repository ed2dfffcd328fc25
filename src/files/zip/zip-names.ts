import { isUtf8 } from 'node:buffer';
import { type Entry, getFileNameLowLevel } from 'yauzl';
import { invalidEntry } from './zip-errors.ts';

const maxPathBytes = 1024;
const maxSegmentBytes = 255;
const utf8Flag = 0x800;

const relative = 'Make the zip with names relative to the folder it is unpacked in, such as data/input.txt.';
const rename = 'Rename it and make the zip again.';

export interface EntryName {
  /** With neither `.` nor empty segments, and safe to join to a folder; '' is that folder itself. */
  path: string;
  /** Folders are told by the slash at the end of their names. */
  isFolder: boolean;
}

/** The name of an entry, or a refusal that says what is wrong with it. */
export function parseEntryName(entry: Entry): EntryName {
  const name = decodeName(entry);
  if (entry.fileNameRaw.length > maxPathBytes || Buffer.byteLength(name) > maxPathBytes) {
    throw invalidEntry(name, `has a path of more than ${maxPathBytes} bytes`, 'Use shorter names or fewer folders.');
  }
  if (hasControls(entry.fileNameRaw, name)) {
    throw invalidEntry(name, 'has control characters in its name', rename);
  }
  if (name.includes('\\')) {
    throw invalidEntry(name, 'has a backslash in its name', 'Make the zip with a tool that separates folders by "/".');
  }
  if (name.startsWith('/') || /^[a-z]:/i.test(name)) {
    throw invalidEntry(name, 'has an absolute path', relative);
  }
  const segments = name.split('/').filter((segment) => segment !== '' && segment !== '.');
  for (const segment of segments) checkSegment(name, segment);
  const isFolder = name.endsWith('/');
  if (segments.length === 0 && !isFolder) {
    throw invalidEntry(name, 'has no name', rename);
  }
  return { path: segments.join('/'), isFolder };
}

function checkSegment(name: string, segment: string) {
  if (segment === '..') {
    throw invalidEntry(name, 'climbs out of its folder', relative);
  }
  if (Buffer.byteLength(segment) > maxSegmentBytes) {
    throw invalidEntry(name, `has a name of more than ${maxSegmentBytes} bytes`, 'Use shorter names.');
  }
  if (/^(con|prn|aux|nul|com[1-9]|lpt[1-9])$/i.test(segment)) {
    throw invalidEntry(name, 'has a name that is reserved for a device', rename);
  }
}

/** Names without the UTF-8 flag should be in code page 437, but macOS writes UTF-8 all the same. */
function decodeName(entry: Entry): string {
  const flags = entry.generalPurposeBitFlag;
  const looksLikeUtf8 = isUtf8(entry.fileNameRaw);
  const decode = (utf8: boolean) =>
    getFileNameLowLevel(utf8 ? flags | utf8Flag : flags & ~utf8Flag, entry.fileNameRaw, entry.extraFields, true);
  if ((flags & utf8Flag) !== 0 && !looksLikeUtf8) {
    throw invalidEntry(decode(false), 'claims to have its name in UTF-8, and has not', rename);
  }
  return decode(looksLikeUtf8);
}

/** Looks at the bytes as well: code page 437 decodes its control characters to smileys. */
function hasControls(raw: Buffer, name: string): boolean {
  return raw.some((byte) => byte < 0x20 || byte === 0x7f) || /\p{Cc}/u.test(name);
}
