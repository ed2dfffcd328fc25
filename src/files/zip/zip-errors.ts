import { BursarError } from '../../domain/errors.ts';
import { toFileSystemError } from '../file-system-errors.ts';

/** Refuses one entry by name: `The zip entry "…" <problem>. <remedy>` */
export function invalidEntry(name: string, problem: string, remedy: string, cause?: unknown): BursarError {
  return new BursarError('invalid_zip', `The zip entry ${printable(name)} ${problem}. ${remedy}`, { cause });
}

export function invalidZip(message: string, cause?: unknown): BursarError {
  return new BursarError('invalid_zip', message, { cause });
}

/**
 * Tells the zip's faults from the disk's: whatever reading a zip throws and the file system did not, the zip's
 * bytes brought about.
 */
export function toZipError(error: unknown): unknown {
  const trouble = toFileSystemError('read the zip file', error);
  if (trouble instanceof BursarError) return trouble;
  const detail = error instanceof Error ? error.message : '';
  if (detail.startsWith('End of central directory record signature not found')) {
    return invalidZip('The body is not a zip file, or its end is missing. Send a whole zip file, as raw bytes.', error);
  }
  if (detail.startsWith('strong encryption')) {
    return invalidZip('The zip file is encrypted. Make the zip without a password.', error);
  }
  return invalidZip(`The zip file is damaged (${clean(detail, 120)}). Make it again, and send all of it.`, error);
}

/** A name out of a stranger's zip, made harmless for logs and terminals. */
function printable(name: string): string {
  return `"${clean(name, 80)}"`;
}

function clean(text: string, maxLength: number): string {
  const start = text.length > maxLength ? `${text.slice(0, maxLength)}…` : text;
  return start.replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?');
}
