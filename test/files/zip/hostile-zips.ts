import { buffer } from 'node:stream/consumers';
import { deflateRawSync } from 'node:zlib';
import { ZipFile } from 'yazl';
import { type RawEntry, rawZip, unicodePathField } from './raw-zip.ts';

type Content = string | Buffer;
type MakeZipFile = Content | { content: Content; mode?: number };

/** An honest zip. Names that end in a slash become empty folders. */
export async function makeZip(
  files: Record<string, MakeZipFile>,
  options: { forceZip64Format?: boolean } = {},
): Promise<Buffer> {
  const zip = new ZipFile();
  const { forceZip64Format = false } = options;
  for (const [name, file] of Object.entries(files)) {
    const { content, mode = 0o100644 } = typeof file === 'string' || Buffer.isBuffer(file) ? { content: file } : file;
    if (name.endsWith('/')) zip.addEmptyDirectory(name);
    else zip.addBuffer(Buffer.from(content), name, { mode, forceZip64Format });
  }
  zip.end({ forceZip64Format, comment: '' });
  return await buffer(zip.outputStream);
}

interface HostileZip {
  /** Completes the sentence "a zip …". */
  name: string;
  bytes: Buffer;
  /** What the refusal has to say, apart from `invalid_zip`. */
  says: RegExp;
}

/** Limits that are generous to honest zips, and that every hostile one breaks where a limit is its only fault. */
export const hostileLimits = { maxEntries: 1000, maxUnpackedBytes: 100_000_000, maxRatio: 200 };

const script: RawEntry = { name: 'run.sh', content: '#!/bin/sh\necho hello\n', mode: 0o100755 };

function withEntries(name: string, says: RegExp, ...entries: RawEntry[]): HostileZip {
  return { name, says, bytes: rawZip([script, ...entries]) };
}

function named(name: string, says: RegExp, entryName: string | Buffer): HostileZip {
  return withEntries(name, says, { name: entryName, content: 'evil' });
}

const broken: HostileZip[] = [
  { name: 'that is not one', bytes: Buffer.from('#!/bin/sh\necho hello\n'), says: /not a zip file/ },
  { name: 'that is a single byte', bytes: Buffer.from('P'), says: /not a zip file/ },
  { name: 'that is cut off', bytes: rawZip([script]).subarray(0, -10), says: /its end is missing/ },
  { name: 'that lacks its beginning', bytes: rawZip([script, script]).subarray(60), says: /damaged|outside/ },
  { name: 'with something behind its end', bytes: Buffer.concat([rawZip([script]), Buffer.alloc(9)]), says: /damaged/ },
];

const names: HostileZip[] = [
  named('with an entry that climbs out', /"\.\.\/evil" climbs out/, '../evil'),
  named('with an entry that goes down and climbs out', /climbs out/, 'a/../../evil'),
  named('with a folder that climbs out', /climbs out/, 'a/../..'),
  named('with an absolute path', /"\/etc\/cron\.d\/evil" has an absolute path/, '/etc/cron.d/evil'),
  named('with a drive letter', /absolute path/, 'C:/evil'),
  named('with a drive letter and no slash', /absolute path/, 'c:evil'),
  named('with backslashes', /backslash/, '..\\evil'),
  named('with a backslash in code page 437', /backslash/, Buffer.from('a\\b')),
  named('with a device name', /"CON" .*reserved/, 'CON'),
  named('with a device name in small letters in a folder', /reserved/, 'data/aux'),
  named('with a device name for a folder', /reserved/, 'lpt9/data.txt'),
  named('with a line feed in a name', /"a\?b" has control characters/, 'a\nb'),
  named('with a NUL in a name', /control characters/, 'harmless.txt\0.sh'),
  named('with a DEL in a name', /control characters/, 'a\x7f'),
  named('with an escape sequence in a name', /control characters/, '\x1b[2Jgone'),
  named('with a C1 control character in a name', /control characters/, 'a\u009bb'),
  named('with a control character in code page 437', /control characters/, Buffer.from([0xff, 0x01])),
  named('with a name of 256 bytes', /more than 255 bytes/, 'x'.repeat(256)),
  named('with a name of 86 characters and 258 bytes', /more than 255 bytes/, '\u20ac'.repeat(86)),
  named('with a path of 1025 bytes', /more than 1024 bytes/, `${'d/'.repeat(512)}x`),
  named('with an entry without a name', /has no name/, ''),
  named('with an entry named after its own folder', /has no name/, '.'),
  withEntries('with a name that is not the UTF-8 it claims to be', /claims to have its name in UTF-8/, {
    name: Buffer.from([0x61, 0xff, 0xfe]),
    flags: 0x800,
  }),
  withEntries('with a second name that climbs out', /"\.\.\/evil" climbs out/, {
    name: 'harmless',
    extra: unicodePathField('harmless', '../evil'),
  }),
];

const kinds: HostileZip[] = [
  withEntries('with a symbolic link', /"link" is a symbolic link/, {
    name: 'link',
    content: '/etc/passwd',
    mode: 0o120777,
  }),
  withEntries(
    'with a link to a folder and a file in it',
    /symbolic link/,
    { name: 'link', content: '/etc', mode: 0o120777 },
    { name: 'link/passwd', content: 'evil' },
  ),
  withEntries('with a character device', /neither a file nor a folder/, { name: 'null', mode: 0o020666 }),
  withEntries('with a block device', /neither a file nor a folder/, { name: 'sda', mode: 0o060666 }),
  withEntries('with a fifo', /neither a file nor a folder/, { name: 'pipe', mode: 0o010666 }),
  withEntries('with a socket', /neither a file nor a folder/, { name: 'socket', mode: 0o140777 }),
  withEntries('with a folder that is not named as one', /without the name of one/, { name: 'folder', mode: 0o040755 }),
  withEntries('with a folder that has content', /folder with content/, { name: 'folder/', content: 'evil' }),
  withEntries('with an encrypted entry', /"secret" is encrypted/, { name: 'secret', flags: 0x801 }),
  withEntries('with a strongly encrypted entry', /is encrypted/, { name: 'secret', flags: 0x841 }),
  withEntries('with masked headers', /encrypted/, { name: 'secret', flags: 0x2800 }),
  withEntries('with bzip2 compression', /method 12/, { name: 'data', content: 'x', method: 12 }),
  withEntries('with Deflate64 compression', /method 9/, { name: 'data', content: 'x', method: 9 }),
];

const twins: HostileZip[] = [
  withEntries('with the same name twice', /"run\.sh" is there twice/, script),
  withEntries('with the same name spelt in two ways', /is there twice/, { name: './/run.sh', content: 'evil' }),
  withEntries('with the same folder twice', /is there twice/, { name: 'd/' }, { name: 'd/' }),
  withEntries('with a file and a folder of one name', /is there twice/, { name: 'a', content: 'x' }, { name: 'a/' }),
  withEntries('with a file inside a file', /lies in a folder that is a file/, { name: 'a' }, { name: 'a/b/c' }),
  withEntries('with a file in the place of a folder', /is a file and a folder/, { name: 'a/b/c' }, { name: 'a/b' }),
  withEntries('with names that are one after normalisation', /is there twice/, { name: '\u00e9' }, { name: 'e\u0301' }),
];

const zeros = deflateRawSync(Buffer.alloc(20_000_000));
const bomb: RawEntry = { name: 'bomb', content: Buffer.alloc(20_000_000), packed: zeros };
const smallBombs = Array.from({ length: 30 }, (_, i) => ({ name: `bomb${i}`, content: Buffer.alloc(900_000) }));

const sizes: HostileZip[] = [
  {
    name: 'that claims four billion entries',
    bytes: rawZip([script], { zip64: { entryCount: 2n ** 32n } }),
    says: /at most/,
  },
  {
    name: 'that claims all the entries there can be',
    bytes: rawZip([], { zip64: { entryCount: 2n ** 64n - 1n } }),
    says: /at most/,
  },
  { name: 'with fewer entries than it claims', bytes: rawZip([script], { entryCount: 9 }), says: /damaged/ },
  {
    name: 'with more entries than it claims',
    bytes: rawZip([script, bomb], { entryCount: 1 }),
    says: /more entries than it says/,
  },
  withEntries('with an entry of a petabyte', /unpacks to more than/, { name: 'data', unpackedBytes: 2 ** 50 }),
  withEntries('with an entry of more bytes than can be counted', /unpacks to more than/, {
    name: 'data',
    unpackedBytes: 2n ** 64n - 1n,
  }),
  withEntries('with a stored entry of two sizes', /two sizes/, {
    name: 'data',
    method: 0,
    content: 'x',
    unpackedBytes: 9,
  }),
  withEntries('with an entry that is a bomb', /"bomb" unpacks to more than/, bomb),
  withEntries('with many entries that make a bomb together', /The zip file unpacks to more than/, ...smallBombs),
];

const first = { offset: 0, hasNoData: true };
const farAway = 2n ** 63n;

const places: HostileZip[] = [
  withEntries(
    'with entries that are all the same bytes',
    /shares its bytes/,
    { ...script, name: 'b', ...first },
    { ...script, name: 'c', ...first },
  ),
  withEntries('with an entry inside another', /shares its bytes/, {
    name: 'b',
    content: 'x',
    hasNoData: true,
    offset: 8,
  }),
  withEntries('with an entry inside the directory', /outside the file/, { name: 'b', content: 'x', hasNoData: true }),
  withEntries('with an entry behind the end', /outside the file/, { name: 'b', offset: 1_000_000 }),
  withEntries('with an entry behind everything', /outside the file/, { name: 'b', offset: farAway }),
  withEntries('with an entry that ends behind the end', /outside the file/, { name: 'b', packedBytes: 1_000_000 }),
  withEntries('with an entry larger than any file', /outside the file/, { name: 'b', packedBytes: farAway }),
  {
    name: 'with its directory behind everything',
    bytes: rawZip([script], { zip64: { directoryOffset: farAway } }),
    says: /damaged/,
  },
  {
    name: 'with an empty directory behind everything',
    bytes: rawZip([], { zip64: { directoryOffset: farAway } }),
    says: /damaged/,
  },
  {
    name: 'with its end record behind everything',
    bytes: rawZip([script], { zip64: { recordOffset: farAway } }),
    says: /damaged/,
  },
];

/** One zip at least of every kind that `inspectZip` refuses. */
export const hostileZips: HostileZip[] = [...broken, ...names, ...kinds, ...twins, ...sizes, ...places];

const half = deflateRawSync('hello hello hello').subarray(0, 5);

/** Zips whose directory is in order and does not tell the truth: only unpacking finds out. */
export const forgedZips: HostileZip[] = [
  withEntries('with a wrong checksum', /"data" has a wrong checksum/, { name: 'data', content: 'hello', crc: 1 }),
  withEntries('with a wrong checksum of nothing', /wrong checksum/, { name: 'data', crc: 1 }),
  withEntries('with content longer than it says', /larger than the zip says/, {
    name: 'data',
    content: 'hello',
    unpackedBytes: 4,
  }),
  withEntries('with content shorter than it says', /smaller than the zip says/, {
    name: 'data',
    content: 'hello',
    unpackedBytes: 6,
  }),
  withEntries('with a bomb behind a small size', /larger than the zip says/, { ...bomb, unpackedBytes: 100 }),
  withEntries('with content that is not deflated', /is damaged/, {
    name: 'data',
    packed: Buffer.from([0xff, 0xff, 0xff]),
  }),
  withEntries('with content that breaks off', /is damaged/, { name: 'data', packed: half }),
  { name: 'with an entry that is not where it should be', bytes: misplaced(), says: /is damaged/ },
];

function misplaced(): Buffer {
  const bytes = rawZip([script]);
  bytes.write('NOPE', 0);
  return bytes;
}
