import { BursarError } from '../domain/errors.ts';

/**
 * Whether a file with this mode is open to all users of the host. Members of a group may have access to a secret: distributions
 * give keys to a group such as ssl-cert, a file of root gives a service access so, and so does the owner of a mounted volume.
 */
export const isOpenToOthers = (mode: number) => (mode & 0o007) !== 0;

/** Throws `invalid_config` if a file is open to others. `problem` says what they can do with it. */
export function requirePrivate(file: string, mode: number, problem: string): void {
  if (!isOpenToOthers(mode)) return;
  throw new BursarError('invalid_config', `Other users of this host ${problem}. Run "chmod o-rwx ${file}".`);
}
