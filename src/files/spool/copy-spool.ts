import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { copyFile, link, mkdir, open, rename } from 'node:fs/promises';
import { join } from 'node:path';
import { fileSystemErrorCode, toFileSystemError } from '../file-system-errors.ts';
import { syncFolder } from '../sync-folder.ts';
import type { Spool } from './spool.ts';

/**
 * Gives all zips of the spool a second name in `folder`, which must be on the same file system: they remain there when the
 * dispatcher removes them from the spool. A zip never changes under its name. Zips that are there already are left.
 */
export async function linkZips(spool: Spool, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  for (const jobId of await spool.list()) await linkOrCopy(spool.pathOf(jobId), zipPath(folder, jobId));
}

export const zipPath = (folder: string, jobId: string) => join(folder, `${jobId}.zip`);

async function linkOrCopy(from: string, to: string): Promise<void> {
  try {
    await link(from, to);
  } catch (error) {
    const code = fileSystemErrorCode(error) ?? '';
    // The job was submitted meanwhile, or an earlier call has linked its zip.
    if (code === 'ENOENT' || code === 'EEXIST') return;
    // A file system without hard links.
    await copyFile(from, to).catch((cause) => {
      if (fileSystemErrorCode(cause) !== 'ENOENT') throw toFileSystemError('copy a zip of the spool', cause);
    });
  }
}

/** Copies a file durably. It appears under its name only when it is complete. */
export async function copyDurably(from: string, folder: string, name: string): Promise<void> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const partial = join(folder, `${name}.partial`);
  await copyFile(from, partial);
  const handle = await open(partial, 'r+');
  try {
    await handle.chmod(0o600);
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(partial, join(folder, name));
  await syncFolder(folder);
}

export async function hashFile(path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest('hex');
}
