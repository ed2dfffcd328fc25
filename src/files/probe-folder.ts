import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { toFileSystemError } from './file-system-errors.ts';

/** More than a file system keeps in the inode of a file, and about as much as a small submission needs. */
const probeBytes = 65_536;

/** Writes, syncs and removes a file. Throws if the disk refuses that. Several processes may probe the same folder. */
export async function probeFolder(folder: string): Promise<void> {
  const path = join(folder, '.storage-probe');
  try {
    const file = await open(path, 'w', 0o600);
    try {
      await file.writeFile(Buffer.alloc(probeBytes));
      await file.sync();
    } finally {
      await file.close();
    }
  } catch (error) {
    throw toFileSystemError('write to its data folder', error);
  } finally {
    // An error is ignored: the next probe replaces the file.
    await rm(path, { force: true }).catch(() => undefined);
  }
}
