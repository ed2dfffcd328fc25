import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import type { UploadSource } from '../submit.ts';
import { InputError, openFolder, toWebStream } from './folder.ts';

/** A zip file as the input of a job. It is sent as it is. */
export async function openZip(path: string): Promise<UploadSource & { totalBytes: number }> {
  const found = await stat(path);
  if (!found.isFile()) throw new InputError(`${path} is not a file.`);
  return {
    name: basename(path),
    totalBytes: found.size,
    open: (onBytes) => toWebStream(readChunks(path, onBytes)),
  };
}

/** Opens a folder or a zip file. */
export async function openInput(path: string): Promise<UploadSource> {
  return (await stat(path)).isDirectory() ? await openFolder(path) : await openZip(path);
}

async function* readChunks(path: string, onBytes: (count: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of createReadStream(path, { highWaterMark: 256 * 1024 })) {
    yield chunk as Buffer;
    onBytes((chunk as Buffer).length);
  }
}
