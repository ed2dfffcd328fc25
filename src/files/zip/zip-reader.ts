import { fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';
import { toZipError } from './zip-errors.ts';
import { type ByteReader, withByteReader, type ZipSource } from './zip-source.ts';

export interface OpenZip {
  zip: ZipFile;
  bytes: ByteReader;
  /** Where the central directory begins, and the entries' data must have ended. */
  directoryStart: number;
}

/**
 * Opens a zip for as long as `use` runs. A file is closed whatever happens, and whatever the zip's bytes
 * bring about in here is thrown as `invalid_zip`.
 */
export async function withZip<T>(content: ZipSource, use: (zip: OpenZip) => Promise<T>): Promise<T> {
  try {
    return await withByteReader(content, async (bytes) => {
      // Names stay bytes and sizes unchecked: yauzl's own refusals do not say which entry they mean.
      const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
      const zip = await fromRandomAccessReaderPromise(new WindowReader(bytes), bytes.size, options);
      return await use({ zip, bytes, directoryStart: nextHeaderOffset(zip) });
    });
  } catch (error) {
    throw toZipError(error);
  }
}

/** Where yauzl will read the next header of the central directory. (Its types call this number a boolean.) */
export function nextHeaderOffset(zip: ZipFile): number {
  return Number(zip.readEntryCursor);
}

const windowBytes = 16_384;

/**
 * How yauzl reads the bytes. Its own reader takes any position the zip claims to `fs.read`, which throws for
 * those past 2^53 where nobody can catch it, and ends the process; this one knows where they end. It also
 * reads ahead, since a directory is read in pieces of some fifty bytes. (A class, because yauzl wants a subclass.)
 */
class WindowReader extends RandomAccessReader {
  readonly #bytes: ByteReader;
  #window: Buffer = Buffer.alloc(0);
  #windowStart = 0;

  constructor(bytes: ByteReader) {
    super();
    this.#bytes = bytes;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null, bytesRead?: number) => void,
  ): void {
    if (position > this.#bytes.size - length) {
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
    this.#window = await this.#bytes.read(position, Math.max(length, windowBytes));
    this.#windowStart = position;
  }
}
