/** Random access to the bytes of a zip. */
export interface ByteReader {
  size: number;
  /** Reads up to `length` bytes, fewer at the end. Throws if `position` is past the end. */
  read(position: number, length: number): Promise<Buffer>;
}

/** Checks positions before they are used: they come from an untrusted zip and can be any number. */
export function boundedReader(size: number, read: (start: number, end: number) => Promise<Buffer>): ByteReader {
  return {
    size,
    read: async (position, length) => {
      if (position > size) throw new RangeError('position past the end');
      return await read(position, Math.min(position + length, size));
    },
  };
}
