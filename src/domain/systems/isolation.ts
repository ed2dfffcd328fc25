/** How the jobs of a system are kept from each other's files and from Bursar's: what is in effect, not what is configured. */
export type Isolation =
  | { kind: 'bubblewrap' }
  /** `reason` says to operators why jobs are not isolated; it may contain paths. */
  | { kind: 'none'; reason: string };

/** For operators. It contains no reason: a probe shows it without a token. */
export function notIsolatedWarning(hpc: string): string {
  return `jobs of ${hpc} are not isolated: each can read and change the files of all others and of the account that runs it`;
}

/** True for the folder itself and for every path below it. Both paths are absolute and normalised. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}
