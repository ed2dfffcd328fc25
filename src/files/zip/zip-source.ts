import { open } from 'node:fs/promises';
import { type ByteReader, boundedReader } from './byte-reader.ts';
import { toZipError } from './zip-errors.ts';
import { type OpenZip, readZip } from './zip-reader.ts';

/** The bytes of a zip. Small zips are held in memory, all others are files. */
export type ZipSource = { kind: 'memory'; bytes: Buffer } | { kind: 'file'; path: string };

/**
 * Calls `use` with an open zip. A file is closed afterwards, also after an error. All errors that the bytes of the zip
 * cause are thrown as `invalid_zip`.
 */
export async function withZip<T>(source: ZipSource, use: (zip: OpenZip) => Promise<T>): Promise<T> {
  try {
    return await withByteReader(source, (reader) => readZip(reader, use));
  } catch (error) {
    throw toZipError(error);
  }
}

/** Calls `use` with a reader. A file is closed afterwards, also after an error. */
async function withByteReader<T>(source: ZipSource, use: (reader: ByteReader) => Promise<T>): Promise<T> {
  if (source.kind === 'memory') {
    const { bytes } = source;
    return await use(boundedReader(bytes.length, async (start, end) => bytes.subarray(start, end)));
  }
  const file = await open(source.path, 'r');
  try {
    const { size } = await file.stat();
    const read = async (start: number, end: number) => {
      const buffer = Buffer.allocUnsafe(end - start);
      const { bytesRead } = await file.read(buffer, 0, buffer.length, start);
      return buffer.subarray(0, bytesRead);
    };
    return await use(boundedReader(size, read));
  } finally {
    await file.close();
  }
}
