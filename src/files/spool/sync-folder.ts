import { open } from 'node:fs/promises';

/** A new name is durable only once the folder that holds it is on disk. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
