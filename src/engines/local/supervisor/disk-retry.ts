import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../../../domain/errors.ts';
import { toFileSystemError } from '../../../files/file-system-errors.ts';

export const diskRetryMs = 1000;

/** Whether the disk is full or read-only: a condition that ends when the operator corrects it. */
export function isDiskRefusal(error: unknown): boolean {
  const translated = toFileSystemError('write', error);
  return translated instanceof BursarError && translated.code === 'storage_unavailable';
}

/**
 * Repeats `work` while the disk refuses writes, at most `maxAttempts` times. Returns undefined if the disk still does so
 * when `isCancelled`.
 */
export async function retryWhileDiskRefuses<T>(
  work: () => Promise<T>,
  maxAttempts: number,
  isCancelled: () => boolean,
): Promise<T | undefined> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await work();
    } catch (error) {
      if (!isDiskRefusal(error) || attempt === maxAttempts) throw error;
      if (isCancelled()) return undefined;
      await sleep(diskRetryMs);
    }
  }
}
