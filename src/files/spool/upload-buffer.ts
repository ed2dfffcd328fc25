import { type FileHandle, open, rm } from 'node:fs/promises';
import type { ZipSource } from '../zip/zip-source.ts';

/** So much is held in memory at the most: for what is smaller than this, a file costs more than what is in it. */
export const maxInMemoryBytes = 65_536;
/** Each piece takes memory of its own, however small it is. */
const mostHeldPieces = 64;

/** What is arriving, in memory as long as it is small, and in a file from then on. */
export interface UploadBuffer {
  add(piece: Uint8Array): Promise<void>;
  /** After success it is complete; a file is closed and fsynced. */
  end(): Promise<ZipSource>;
  /** After it nothing is left. */
  abandon(): Promise<void>;
}

/** `path` is where the file would be. */
export function createUploadBuffer(path: string): UploadBuffer {
  let held: Uint8Array[] = [];
  let heldBytes = 0;
  let file: FileHandle | undefined;

  async function openFile(): Promise<FileHandle> {
    file = await open(path, 'wx', 0o600);
    for (const piece of held) await file.appendFile(piece);
    held = [];
    return file;
  }

  return {
    async add(piece) {
      heldBytes += piece.length;
      if (file === undefined && heldBytes <= maxInMemoryBytes && held.length < mostHeldPieces) held.push(piece);
      else await (file ?? (await openFile())).appendFile(piece);
    },
    async end() {
      const [first, ...others] = held;
      if (first instanceof Buffer && others.length === 0) return { kind: 'memory', bytes: first };
      if (file === undefined) return { kind: 'memory', bytes: Buffer.concat(held) };
      await file.sync();
      await file.close();
      return { kind: 'file', path };
    },
    async abandon() {
      if (file === undefined) return;
      // On a disk in trouble these may fail too; the first trouble is the one to tell of, and a start sweeps it away.
      await file.close().catch(() => undefined);
      await rm(path, { force: true }).catch(() => undefined);
    },
  };
}
