import { open, rm } from 'node:fs/promises';

/** Writes a new file. After success its content is on disk, and its name once the folder is synced. After a failure it is gone. */
export async function writeFileSynced(path: string, content: Buffer): Promise<void> {
  const file = await open(path, 'wx', 0o600);
  try {
    await file.writeFile(content);
    await file.sync();
  } catch (error) {
    // On a disk in trouble this may fail too; the first trouble is the one to tell of.
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  } finally {
    await file.close();
  }
}

/** A new name is durable only once the folder that holds it is on disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
