import { open } from 'node:fs/promises';

/** Flushes a folder to disk. A file that was created or renamed in it survives a power cut only after this. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
