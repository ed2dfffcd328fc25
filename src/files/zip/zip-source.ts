import { open } from 'node:fs/promises';

/** The bytes of a zip. Small zips are held in memory, all others are files. */
export type ZipSource = { kind: 'memory'; bytes: Buffer } | { kind: 'file'; path: string };

/** Random access to the bytes of a zip. */
export interface ByteReader {
  size: number;
  /** Reads up to `length` bytes, fewer at the end. Throws if `position` is past the end. */
  read(position: number, length: number): Promise<Buffer>;
}

/** Calls `use` with a reader. A file is closed afterwards, also after an error. */
export async function withByteReader<T>(source: ZipSource, use: (reader: ByteReader) => Promise<T>): Promise<T> {
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

/** Checks positions before they are used: they come from an untrusted zip and can be any number. */
function boundedReader(size: number, read: (start: number, end: number) => Promise<Buffer>): ByteReader {
  return {
    size,
    read: async (position, length) => {
      if (position > size) throw new RangeError('position past the end');
      return await read(position, Math.min(position + length, size));
    },
  };
}
