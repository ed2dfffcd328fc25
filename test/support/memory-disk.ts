import { mountSmallDisk, type SmallDisk } from './small-disk.ts';

/** It takes memory only for the files that exist. */
const maxSizeMb = 8192;
/** With less, the processes of the tests need the memory themselves. */
const minSizeMb = 3072;

/**
 * Makes the temporary folder of all tests a file system in memory: the tests create hundreds of databases, and on a disk most of
 * their time is spent waiting for fsync. Returns undefined, and the tests use the disk, if this process may not mount it or if
 * the machine has little memory.
 */
export function useMemoryDisk(): SmallDisk | undefined {
  const sizeMb = Math.min(maxSizeMb, Math.floor(process.availableMemory() / 2 / 1024 ** 2));
  if (sizeMb < minSizeMb || process.getuid?.() !== 0) return undefined;
  try {
    const disk = mountSmallDisk(sizeMb);
    process.env.TMPDIR = disk.folder;
    return disk;
  } catch {
    return undefined;
  }
}
