import { fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';

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
export function nextHeaderOffset(zipFile: ZipFile): number {
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
