import { open } from 'node:fs/promises';

/** A small thing is in memory, anything else in the file at this path. */
export type Content = Buffer | string;

/** Bytes that can be read from any place, wherever they are. */
export interface ByteSource {
  size: number;
  /** So many bytes from a position on, or as many as there are. Throws for a position where there never are any. */
  read(position: number, length: number): Promise<Buffer>;
}

/** Gives access to the bytes for as long as `use` runs. */
export async function withBytes<T>(content: Content, use: (bytes: ByteSource) => Promise<T>): Promise<T> {
  if (typeof content !== 'string') {
    return await use(within(content.length, async (start, end) => content.subarray(start, end)));
  }
  const file = await open(content, 'r');
  try {
    const { size } = await file.stat();
    const read = async (start: number, end: number) => {
      const room = Buffer.allocUnsafe(end - start);
      const { bytesRead } = await file.read(room, 0, room.length, start);
      return room.subarray(0, bytesRead);
    };
    return await use(within(size, read));
  } finally {
    await file.close();
  }
}

/** Positions come from strangers, and can be any number. */
function within(size: number, read: (start: number, end: number) => Promise<Buffer>): ByteSource {
  return {
    size,
    read: async (position, length) => {
      if (position > size) throw new RangeError('position past the end');
      return await read(position, Math.min(position + length, size));
    },
  };
}
