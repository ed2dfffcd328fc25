import { type Entry, fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';
import { formatBytes } from '../../domain/format-amount.ts';
import { exceedsMaxRatio, parseEntry, type ZipEntry, type ZipLimits } from './zip-entries.ts';
import { invalidEntry, invalidZip } from './zip-errors.ts';

/** Random access to the bytes of a zip. */
export interface ByteReader {
  size: number;
  /** Reads up to `length` bytes, fewer at the end. Throws if `position` is past the end. */
  read(position: number, length: number): Promise<Buffer>;
}

const windowBytes = 65_536;

/**
 * Reads ahead: most reads of a zip are small, and continue where the last one ended. Checks positions before they are
 * used, because they come from an untrusted zip and can be any number.
 */
export function createByteReader(size: number, readRange: (start: number, end: number) => Promise<Buffer>): ByteReader {
  let window: Buffer = Buffer.alloc(0);
  let windowStart = 0;
  return {
    size,
    async read(position, length) {
      if (position > size) throw new RangeError('position past the end');
      const end = Math.min(position + length, size);
      if (position < windowStart || end > windowStart + window.length) {
        window = await readRange(position, Math.min(position + Math.max(length, windowBytes), size));
        windowStart = position;
      }
      return window.subarray(position - windowStart, end - windowStart);
    },
  };
}

export interface OpenZip {
  zipFile: ZipFile;
  reader: ByteReader;
  /** Position of the central directory. The data of all entries must end before it. */
  directoryStart: number;
}

/** Finds the central directory. Errors of yauzl pass through: `toZipError` converts them. */
export async function openZip(reader: ByteReader): Promise<OpenZip> {
  // yauzl neither decodes names nor checks sizes, because its error messages do not name the entry.
  const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
  const zipFile = await fromRandomAccessReaderPromise(new YauzlReader(reader), reader.size, options);
  return { zipFile, reader, directoryStart: nextHeaderOffset(zipFile) };
}

/** Position of the next central header, at first the first one. (yauzl's types declare this number as a boolean.) */
function nextHeaderOffset(zipFile: ZipFile): number {
  return Number(zipFile.readEntryCursor);
}

/**
 * Reads bytes for yauzl. The reader of yauzl passes any position from the zip to `fs.read`, which throws an uncatchable
 * error for positions past 2^53 and so ends the process. (A class, because yauzl requires a subclass.)
 */
class YauzlReader extends RandomAccessReader {
  readonly #reader: ByteReader;

  constructor(reader: ByteReader) {
    super();
    this.#reader = reader;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null, bytesRead?: number) => void,
  ): void {
    if (position > this.#reader.size - length) callback(null, 0);
    else this.#reader.read(position, length).then((bytes) => callback(null, bytes.copy(buffer, offset)), callback);
  }
}

export interface ZipDirectory {
  /** In the order of their data. */
  entries: readonly ZipEntry[];
  unpackedBytes: number;
}

/**
 * Checks the central directory of a zip, and reads nothing else. After success, every entry is a regular file or folder
 * with a unique path inside the target folder, and within the limits. `readContent` detects data that contradicts it.
 */
export async function readDirectory(zip: OpenZip, limits: ZipLimits): Promise<ZipDirectory> {
  const check = createDirectoryCheck(limits);
  for await (const header of readHeaders(zip, limits)) check.add(parseEntry(header, zip.directoryStart, limits));
  return check.finish();
}

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

const centralHeaderSignature = 0x02014b50;

/** Old tools store the number of entries modulo 65,536. Trusting that number would silently lose files. */
async function rejectExtraEntries({ zipFile, reader }: OpenZip) {
  const next = await reader.read(nextHeaderOffset(zipFile), 4);
  if (next.length === 4 && next.readUInt32LE(0) === centralHeaderSignature) {
    throw invalidZip('The zip file has more entries than it declares. Create it with a tool that supports zip64.');
  }
}

/** Checks the entries of a zip together: their paths, their places in the zip, and their sizes. */
export function createDirectoryCheck(limits: ZipLimits) {
  const tree = createPathTree(limits.maxEntries);
  const entries: ZipEntry[] = [];
  let unpackedBytes = 0;
  let packedBytes = 0;
  return {
    /** Throws `invalid_zip` if the entry conflicts with an earlier one, or if it is too much. */
    add(entry: ZipEntry): void {
      tree.add(entry);
      entries.push(entry);
      unpackedBytes += entry.unpackedBytes;
      packedBytes += entry.packedBytes;
      // Neither sum can exceed the safe integers: every entry is within this limit and within the file.
      if (unpackedBytes > limits.maxUnpackedBytes) {
        throw invalidZip(`The zip file unpacks to more than ${formatBytes(limits.maxUnpackedBytes)}. Send less data.`);
      }
    },

    /** Throws `invalid_zip` if the entries overlap, or are a zip bomb together. */
    finish(): ZipDirectory {
      entries.sort((a, b) => a.start - b.start);
      rejectOverlaps(entries);
      if (exceedsMaxRatio(unpackedBytes, packedBytes, limits)) {
        const problem = `The zip file unpacks to more than ${limits.maxRatio} times its size`;
        throw invalidZip(`${problem}. Generate such data in the job instead of sending it.`);
      }
      return { entries, unpackedBytes };
    },
  };
}

/** Overlapping entries are a zip bomb: they let a few kilobytes unpack to petabytes. */
function rejectOverlaps(entries: readonly ZipEntry[]) {
  let end = 0;
  for (const entry of entries) {
    if (entry.start < end) {
      throw invalidEntry(entry.path, 'overlaps with another entry', 'Create the zip with another tool.');
    }
    end = entry.end;
  }
}

/** Detects entries that would be unpacked to the same path, including those on file systems that normalise Unicode names. */
export function createPathTree(maxFolders: number) {
  const kinds = new Map<string, ZipEntry['kind']>();
  const parents = new Set<string>();
  const recreate = 'Create the zip again with every path only once.';

  /** Stops at the first known folder: all folders above it are known too, and none of them is a file. */
  function addParents(path: string, key: string) {
    for (let end = key.lastIndexOf('/'); end > 0; end = key.lastIndexOf('/', end - 1)) {
      const parent = key.slice(0, end);
      if (parents.has(parent)) return;
      if (kinds.get(parent) === 'file') throw invalidEntry(path, 'is in a folder that is also a file', recreate);
      parents.add(parent);
    }
    if (parents.size > maxFolders) {
      throw invalidZip(
        `The zip file has more than ${maxFolders} folders. Pack them into one file, such as a tar file.`,
      );
    }
  }

  return {
    add({ path, kind }: Pick<ZipEntry, 'path' | 'kind'>) {
      const key = path.normalize('NFC');
      if (kinds.has(key)) throw invalidEntry(path, 'occurs twice', recreate);
      if (kind === 'file' && parents.has(key)) throw invalidEntry(path, 'is both a file and a folder', recreate);
      kinds.set(key, kind);
      addParents(path, key);
    },
  };
}
