import { type FileHandle, open } from 'node:fs/promises';
import { readDirectory, type ZipDirectory } from './zip-directory.ts';
import type { ZipLimits } from './zip-entries.ts';
import { toZipError } from './zip-errors.ts';
import { createByteReader, type OpenZip, openZip } from './zip-reader.ts';

/** The bytes of a zip. Small zips are held in memory, all others are files. */
export type ZipSource = { kind: 'memory'; bytes: Buffer } | { kind: 'file'; path: string };

/** A zip with a valid central directory. `readContent` detects contents that contradict it. */
export type CheckedZip = OpenZip & ZipDirectory;

/**
 * Checks the central directory of a zip as `readDirectory` does, and calls `use` with the zip. A file is closed
 * afterwards, also after an error. Errors that the bytes of the directory cause are thrown as `invalid_zip`; errors of
 * `use` pass through.
 */
export async function withZip<T>(
  source: ZipSource,
  limits: ZipLimits,
  use: (zip: CheckedZip) => Promise<T>,
): Promise<T> {
  if (source.kind === 'memory') return await use(await openChecked(source.bytes, limits));
  const file = await open(source.path, 'r').catch((error) => {
    throw toZipError(error);
  });
  try {
    return await use(await openChecked(file, limits));
  } finally {
    await file.close();
  }
}

async function openChecked(bytes: Buffer | FileHandle, limits: ZipLimits): Promise<CheckedZip> {
  try {
    const zip = await openZip(Buffer.isBuffer(bytes) ? bufferReader(bytes) : await fileReader(bytes));
    return { ...zip, ...(await readDirectory(zip, limits)) };
  } catch (error) {
    throw toZipError(error);
  }
}

const bufferReader = (bytes: Buffer) =>
  createByteReader(bytes.length, async (start, end) => bytes.subarray(start, end));

async function fileReader(file: FileHandle) {
  const { size } = await file.stat();
  return createByteReader(size, async (start, end) => {
    const { bytesRead, buffer } = await file.read(Buffer.allocUnsafe(end - start), 0, end - start, start);
    return buffer.subarray(0, bytesRead);
  });
}
