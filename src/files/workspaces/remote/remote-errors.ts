import { BursarError } from '../../../domain/errors.ts';
import type { RunResult } from '../../../shell/shell.ts';

/** The counterpart of `passing` in disk-trouble.ts, in the words of the C library. */
const passing =
  /No space left|quota exceeded|Input\/output error|Stale file|Read-only file system|resource busy|not empty|timed out|Cannot allocate|Too many open files|temporarily unavailable/i;

/** Makes a BursarError of a script that failed elsewhere, without the paths that its stderr is full of. */
export function toRemoteError(doing: string, place: string, { code, stderr }: RunResult): BursarError {
  const cause = new Error(stderr.trim());
  const reason = passing.exec(stderr)?.[0];
  if (code === null || reason !== undefined) {
    const message = `Bursar could not ${doing} on ${place} just now (${reason ?? 'killed'}). Try again later.`;
    return new BursarError('unavailable', message, { cause, transient: true });
  }
  const message = `Bursar could not ${doing} on ${place} (exit code ${code}). Tell the people who run this service.`;
  return new BursarError('internal', message, { cause });
}
