import { BursarError, storageUnavailable } from '../domain/errors.ts';

/** The disk refuses writes until the operator frees space or repairs it. */
const storageCodes = new Set(['EDQUOT', 'ENOSPC', 'EROFS']);

/** Errors that may disappear by themselves. */
const transientCodes = new Set([
  'EAGAIN',
  'EBUSY',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOTEMPTY',
  'ESTALE',
  'ETIMEDOUT',
]);

/** Returns the code of a file system error (`ENOSPC`), or undefined for any other error. */
export function fileSystemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Returns false if the change failed with one of these codes. */
export async function ignoreErrors(change: Promise<void>, ...codes: string[]): Promise<boolean> {
  try {
    await change;
    return true;
  } catch (error) {
    if (!codes.includes(fileSystemErrorCode(error) ?? '')) throw error;
    return false;
  }
}

/** Converts a file system error to a BursarError whose message hides the path. Returns any other error unchanged. */
export function toFileSystemError(action: string, error: unknown): unknown {
  const code = fileSystemErrorCode(error);
  if (code === undefined) return error;
  if (storageCodes.has(code)) return storageUnavailable(code, error);
  if (transientCodes.has(code)) {
    const message = `Bursar could not ${action} just now (${code}). Try again later.`;
    return new BursarError('unavailable', message, { cause: error, transient: true });
  }
  const message = `Bursar could not ${action} (${code}). Contact the operators of this service.`;
  return new BursarError('internal', message, { cause: error });
}
