import { BursarError } from '../domain/errors.ts';

/** Troubles of the disk that pass by themselves, or once the operator has made room. */
const passing = new Set([
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

/** The code of an error of the file system (`ENOSPC`), or undefined for every other error. */
export function fileSystemErrorCode(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('syscall' in error) || !('code' in error)) return undefined;
  return typeof error.code === 'string' ? error.code : undefined;
}

/** Makes a BursarError of a file system's error, without its path; any other error is given back as it is. */
export function toFileSystemError(doing: string, error: unknown): unknown {
  const code = fileSystemErrorCode(error);
  if (code === undefined) return error;
  if (passing.has(code)) {
    const message = `Bursar could not ${doing} just now (${code}). Try again later.`;
    return new BursarError('unavailable', message, { cause: error, transient: true });
  }
  const message = `Bursar could not ${doing} (${code}). Tell the people who run this service.`;
  return new BursarError('internal', message, { cause: error });
}
