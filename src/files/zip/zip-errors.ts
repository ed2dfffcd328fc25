import { BursarError, toPrintable } from '../../domain/errors.ts';
import { toFileSystemError } from '../file-system-errors.ts';

/** Rejects one entry by name: `The zip entry "…" <problem>. <remedy>` */
export function invalidEntry(name: string, problem: string, remedy: string, cause?: unknown): BursarError {
  return new BursarError('invalid_zip', `The zip entry "${toPrintable(name, 80)}" ${problem}. ${remedy}`, { cause });
}

export function invalidZip(message: string, cause?: unknown): BursarError {
  return new BursarError('invalid_zip', message, { cause });
}

/** Converts any error from reading a zip. Errors that do not come from the file system are caused by invalid bytes. */
export function toZipError(error: unknown): unknown {
  const converted = toFileSystemError('read the zip file', error);
  if (converted instanceof BursarError) return converted;
  const detail = error instanceof Error ? error.message : '';
  if (detail.startsWith('End of central directory record signature not found')) {
    const message = 'The body is not a zip file, or its end is missing. Send a complete zip file, as raw bytes.';
    return invalidZip(message, error);
  }
  if (detail.startsWith('strong encryption')) {
    return invalidZip('The zip file is encrypted. Create the zip without a password.', error);
  }
  const message = `The zip file is damaged (${toPrintable(detail, 120)}). Create it again and send all of it.`;
  return invalidZip(message, error);
}
