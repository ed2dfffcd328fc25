import { buffer } from 'node:stream/consumers';
import { deflateRawSync } from 'node:zlib';
import { ZipFile } from 'yazl';
import { type RawEntry, rawZip, unicodePathField } from './raw-zip.ts';

type FileContent = string | Buffer;
type MakeZipFile = FileContent | { content: FileContent; mode?: number };

/** Creates a valid zip. Names that end with a slash become empty folders. */
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
  /** The error message must match. */
  message: RegExp;
}

/** Generous limits for valid zips. A zip that is hostile only by its size exceeds them. */
export const hostileLimits = { maxEntries: 1000, maxUnpackedBytes: 100_000_000, maxRatio: 200 };

const script: RawEntry = { name: 'run.sh', content: '#!/bin/sh\necho hello\n', mode: 0o100755 };

function withEntries(name: string, message: RegExp, ...entries: RawEntry[]): HostileZip {
  return { name, message, bytes: rawZip([script, ...entries]) };
}

function named(name: string, message: RegExp, entryName: string | Buffer): HostileZip {
  return withEntries(name, message, { name: entryName, content: 'evil' });
}

const broken: HostileZip[] = [
  { name: 'that is a text file', bytes: Buffer.from('#!/bin/sh\necho hello\n'), message: /not a zip file/ },
  { name: 'that is a single byte', bytes: Buffer.from('P'), message: /not a zip file/ },
  { name: 'that is truncated', bytes: rawZip([script]).subarray(0, -10), message: /its end is missing/ },
  { name: 'whose beginning is missing', bytes: rawZip([script, script]).subarray(60), message: /damaged|extends past/ },
  {
    name: 'with trailing bytes',
    bytes: Buffer.concat([rawZip([script]), Buffer.alloc(9)]),
    message: /damaged/,
  },
];

const names: HostileZip[] = [
  named('with an entry in the parent folder', /"\.\.\/evil" has a path that leaves its folder/, '../evil'),
  named('with a path that enters a folder and then leaves the root', /leaves its folder/, 'a/../../evil'),
  named('with a folder that is the parent folder', /leaves its folder/, 'a/../..'),
  named('with an absolute path', /"\/etc\/cron\.d\/evil" has an absolute path/, '/etc/cron.d/evil'),
  named('with a drive letter', /absolute path/, 'C:/evil'),
  named('with a drive letter without a slash', /absolute path/, 'c:evil'),
  named('with backslashes', /backslash/, '..\\evil'),
  named('with a backslash in code page 437', /backslash/, Buffer.from('a\\b')),
  named('with a device name', /"CON" .*reserved/, 'CON'),
  named('with a lower-case device name in a folder', /reserved/, 'data/aux'),
  named('with a device name as a folder', /reserved/, 'lpt9/data.txt'),
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
  named('with an entry named .', /has no name/, '.'),
  withEntries('with a name that is marked as UTF-8 but is not', /marked as UTF-8/, {
    name: Buffer.from([0x61, 0xff, 0xfe]),
    flags: 0x800,
  }),
  withEntries('with a Unicode path field that leaves the folder', /"\.\.\/evil" has a path that leaves its folder/, {
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
  withEntries('with a folder whose name has no trailing slash', /does not end with a slash/, {
    name: 'folder',
    mode: 0o040755,
  }),
  withEntries('with a folder that has content', /folder with content/, { name: 'folder/', content: 'evil' }),
  withEntries('with an encrypted entry', /"secret" is encrypted/, { name: 'secret', flags: 0x801 }),
  withEntries('with an entry with strong encryption', /is encrypted/, { name: 'secret', flags: 0x841 }),
  withEntries('with masked headers', /encrypted/, { name: 'secret', flags: 0x2800 }),
  withEntries('with bzip2 compression', /method 12/, { name: 'data', content: 'x', method: 12 }),
  withEntries('with Deflate64 compression', /method 9/, { name: 'data', content: 'x', method: 9 }),
];

const duplicates: HostileZip[] = [
  withEntries('with the same path twice', /"run\.sh" occurs twice/, script),
  withEntries('with the same path in two spellings', /occurs twice/, { name: './/run.sh', content: 'evil' }),
  withEntries('with the same folder twice', /occurs twice/, { name: 'd/' }, { name: 'd/' }),
  withEntries('with a file and a folder of the same name', /occurs twice/, { name: 'a', content: 'x' }, { name: 'a/' }),
  withEntries('with a file inside a file', /is in a folder that is also a file/, { name: 'a' }, { name: 'a/b/c' }),
  withEntries('with a file that is also a folder', /is both a file and a folder/, { name: 'a/b/c' }, { name: 'a/b' }),
  withEntries('with names that are equal after normalisation', /occurs twice/, { name: '\u00e9' }, { name: 'e\u0301' }),
];

const zeros = deflateRawSync(Buffer.alloc(20_000_000));
const bomb: RawEntry = { name: 'bomb', content: Buffer.alloc(20_000_000), packed: zeros };
const smallBombs = Array.from({ length: 30 }, (_, i) => ({ name: `bomb${i}`, content: Buffer.alloc(900_000) }));

const sizes: HostileZip[] = [
  {
    name: 'that declares four billion entries',
    bytes: rawZip([script], { zip64: { entryCount: 2n ** 32n } }),
    message: /at most/,
  },
  {
    name: 'that declares the maximum number of entries',
    bytes: rawZip([], { zip64: { entryCount: 2n ** 64n - 1n } }),
    message: /at most/,
  },
  { name: 'with fewer entries than it declares', bytes: rawZip([script], { entryCount: 9 }), message: /damaged/ },
  {
    name: 'with more entries than it declares',
    bytes: rawZip([script, bomb], { entryCount: 1 }),
    message: /more entries than it declares/,
  },
  withEntries('with an entry of a petabyte', /unpacks to more than/, { name: 'data', unpackedBytes: 2 ** 50 }),
  withEntries('with an entry of the maximum size', /unpacks to more than/, {
    name: 'data',
    unpackedBytes: 2n ** 64n - 1n,
  }),
  withEntries('with an uncompressed entry whose sizes differ', /two sizes differ/, {
    name: 'data',
    method: 0,
    content: 'x',
    unpackedBytes: 9,
  }),
  withEntries('with an entry that is a zip bomb', /"bomb" unpacks to more than/, bomb),
  withEntries('with many entries that together are a zip bomb', /The zip file unpacks to more than/, ...smallBombs),
];

const sameAsFirst = { offset: 0, hasNoData: true };
const hugeOffset = 2n ** 63n;

const positions: HostileZip[] = [
  withEntries(
    'whose entries all have the same bytes',
    /overlaps with another entry/,
    { ...script, name: 'b', ...sameAsFirst },
    { ...script, name: 'c', ...sameAsFirst },
  ),
  withEntries('with an entry inside another entry', /overlaps with another entry/, {
    name: 'b',
    content: 'x',
    hasNoData: true,
    offset: 8,
  }),
  withEntries('with an entry inside the central directory', /extends past the data/, {
    name: 'b',
    content: 'x',
    hasNoData: true,
  }),
  withEntries('with an entry past the end', /extends past the data/, { name: 'b', offset: 1_000_000 }),
  withEntries('with an entry at a huge offset', /extends past the data/, { name: 'b', offset: hugeOffset }),
  withEntries('with an entry that ends past the end', /extends past the data/, { name: 'b', packedBytes: 1_000_000 }),
  withEntries('with an entry of a huge packed size', /extends past the data/, { name: 'b', packedBytes: hugeOffset }),
  {
    name: 'whose central directory is at a huge offset',
    bytes: rawZip([script], { zip64: { directoryOffset: hugeOffset } }),
    message: /damaged/,
  },
  {
    name: 'whose empty central directory is at a huge offset',
    bytes: rawZip([], { zip64: { directoryOffset: hugeOffset } }),
    message: /damaged/,
  },
  {
    name: 'whose end record is at a huge offset',
    bytes: rawZip([script], { zip64: { recordOffset: hugeOffset } }),
    message: /damaged/,
  },
];

const emptyBlocks: HostileZip = withEntries('with much data that unpacks to nothing', /much larger than its content/, {
  name: 'data',
  // Blocks of deflate without content.
  packed: Buffer.concat([...Array.from({ length: 1000 }, () => Buffer.from([0, 0, 0, 255, 255])), Buffer.from([3, 0])]),
  unpackedBytes: 0,
});

/** At least one zip for each check of `inspectZip`. */
export const hostileZips: HostileZip[] = [
  ...broken,
  ...names,
  ...kinds,
  ...duplicates,
  ...sizes,
  ...positions,
  emptyBlocks,
];

const truncatedData = deflateRawSync('hello hello hello').subarray(0, 5);

/** Zips with a valid central directory that their data contradicts. Only unpacking detects that. */
export const forgedZips: HostileZip[] = [
  withEntries('with a wrong checksum', /"data" has a wrong checksum/, { name: 'data', content: 'hello', crc: 1 }),
  withEntries('with a wrong checksum of an empty file', /wrong checksum/, { name: 'data', crc: 1 }),
  withEntries('with content longer than declared', /larger than the zip declares/, {
    name: 'data',
    content: 'hello',
    unpackedBytes: 4,
  }),
  withEntries('with content shorter than declared', /smaller than the zip declares/, {
    name: 'data',
    content: 'hello',
    unpackedBytes: 6,
  }),
  withEntries('with a zip bomb that declares a small size', /larger than the zip declares/, {
    ...bomb,
    unpackedBytes: 30_000,
  }),
  withEntries('with content that is not valid deflate data', /is damaged/, {
    name: 'data',
    packed: Buffer.from([0xff, 0xff, 0xff]),
  }),
  withEntries('with truncated content', /is damaged/, { name: 'data', packed: truncatedData }),
  { name: 'without a local header at the declared offset', bytes: withoutLocalHeader(), message: /is damaged/ },
];

function withoutLocalHeader(): Buffer {
  const bytes = rawZip([script]);
  bytes.write('NOPE', 0);
  return bytes;
}
