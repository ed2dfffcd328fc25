import { fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';
import type { ByteReader } from './byte-reader.ts';

export interface OpenZip {
  zip: ZipFile;
  reader: ByteReader;
  /** Position of the central directory. The data of all entries must end before it. */
  directoryStart: number;
}

/** Calls `use` with the zip that the reader reads. Errors of yauzl pass through: `toZipError` converts them. */
export async function readZip<T>(reader: ByteReader, use: (zip: OpenZip) => Promise<T>): Promise<T> {
  // yauzl neither decodes names nor checks sizes, because its error messages do not name the entry.
  const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
  const zip = await fromRandomAccessReaderPromise(new WindowReader(reader), reader.size, options);
  return await use({ zip, reader, directoryStart: nextHeaderOffset(zip) });
}

/** Position of the next central header, at first the first one. (yauzl's types declare this number as a boolean.) */
export function nextHeaderOffset(zip: ZipFile): number {
  return Number(zip.readEntryCursor);
}

const windowBytes = 16_384;

/**
 * Reads bytes for yauzl. The reader of yauzl passes any position from the zip to `fs.read`, which throws an uncatchable
 * error for positions past 2^53 and so ends the process. This reader checks positions first. It also reads ahead,
 * because yauzl reads the directory in chunks of about fifty bytes. (A class, because yauzl requires a subclass.)
 */
class WindowReader extends RandomAccessReader {
  readonly #reader: ByteReader;
  #window: Buffer = Buffer.alloc(0);
  #windowStart = 0;

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
    if (position > this.#reader.size - length) {
      callback(null, 0);
      return;
    }
    const copy = () => {
      const start = position - this.#windowStart;
      callback(null, this.#window.copy(buffer, offset, start, start + length));
    };
    const isInWindow = position >= this.#windowStart && position + length <= this.#windowStart + this.#window.length;
    if (isInWindow) copy();
    else this.#moveWindow(position, length).then(copy, callback);
  }

  async #moveWindow(position: number, length: number): Promise<void> {
    this.#window = await this.#reader.read(position, Math.max(length, windowBytes));
    this.#windowStart = position;
  }
}
