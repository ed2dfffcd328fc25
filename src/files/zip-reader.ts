import { type FileHandle, open } from 'node:fs/promises';
import { fromRandomAccessReaderPromise, RandomAccessReader, type ZipFile } from 'yauzl';
import { zipTrouble } from './invalid-zip.ts';

export interface OpenZip {
  zip: ZipFile;
  file: FileHandle;
  /** Where the central directory begins, and the entries' data must have ended. */
  directoryStart: number;
}

/**
 * Opens a zip for as long as `use` runs. The file is closed whatever happens, and whatever the zip's bytes
 * bring about in here is thrown as `invalid_zip`.
 */
export async function withZip<T>(path: string, use: (zip: OpenZip) => Promise<T>): Promise<T> {
  try {
    const file = await open(path, 'r');
    try {
      const { size } = await file.stat();
      // Names stay bytes and sizes unchecked: yauzl's own refusals do not say which entry they mean.
      const options = { autoClose: false, decodeStrings: false, validateEntrySizes: false };
      const zip = await fromRandomAccessReaderPromise(new WindowReader(file, size), size, options);
      return await use({ zip, file, directoryStart: nextHeader(zip) });
    } finally {
      await file.close();
    }
  } catch (error) {
    throw zipTrouble(error);
  }
}

/** Where yauzl will read the next header of the central directory. (Its types call this number a boolean.) */
export function nextHeader(zip: ZipFile): number {
  return Number(zip.readEntryCursor);
}

const windowBytes = 16_384;

/**
 * How yauzl reads the file. Its own reader takes any position the zip claims to `fs.read`, which throws for
 * those past 2^53 where nobody can catch it, and ends the process; this one knows where the file ends. It also
 * reads ahead, since a directory is read in pieces of some fifty bytes. (A class, because yauzl wants a subclass.)
 */
class WindowReader extends RandomAccessReader {
  readonly #file: FileHandle;
  readonly #size: number;
  #window = Buffer.alloc(0);
  #windowStart = 0;

  constructor(file: FileHandle, size: number) {
    super();
    this.#file = file;
    this.#size = size;
  }

  override read(
    buffer: Buffer,
    offset: number,
    length: number,
    position: number,
    callback: (error: Error | null, bytesRead?: number) => void,
  ): void {
    if (position > this.#size - length) {
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
    const window = Buffer.allocUnsafe(Math.min(Math.max(length, windowBytes), this.#size - position));
    const { bytesRead } = await this.#file.read(window, 0, window.length, position);
    this.#window = window.subarray(0, bytesRead);
    this.#windowStart = position;
  }
}
