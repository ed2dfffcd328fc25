import { BursarError } from '../domain/errors.ts';

/** Errors that may disappear by themselves, or after the operator frees space. */
const transientCodes = new Set([
  'EAGAIN',
  'EBUSY',
  'EDQUOT',
  'EIO',
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'ENOSPC',
  'ENOTEMPTY',
  'EROFS',
  'ESTALE',
  'ETIMEDOUT',
]);

/** Returns the code of a file system error (`ENOSPC`), or undefined for any other error. */
export function fileSystemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Converts a file system error to a BursarError whose message hides the path. Returns any other error unchanged. */
export function toFileSystemError(action: string, error: unknown): unknown {
  const code = fileSystemErrorCode(error);
  if (code === undefined) return error;
  if (transientCodes.has(code)) {
    const message = `Bursar could not ${action} just now (${code}). Try again later.`;
    return new BursarError('unavailable', message, { cause: error, transient: true });
  }
  const message = `Bursar could not ${action} (${code}). Contact the operators of this service.`;
  return new BursarError('internal', message, { cause: error });
}
