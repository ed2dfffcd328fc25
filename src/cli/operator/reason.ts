import { BursarError } from '../../domain/errors.ts';

/** Checks a reason, which is recorded permanently. */
export function parseReason(reason: string): string {
  if (/\S\s*\S\s*\S/.test(reason) && reason.length <= 500) return reason;
  throw new BursarError('invalid_argument', 'Give a reason of 3 to 500 characters with --reason.');
}
