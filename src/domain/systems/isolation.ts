/** How the jobs of a system are kept from each other's files and from Bursar's, as configured. */
export type IsolationSetting = 'auto' | 'bubblewrap' | 'none';

/** The isolation of a system in effect. */
export type Isolation =
  | { kind: 'bubblewrap' }
  /** `reason` says to operators why jobs are not isolated; it may contain paths. */
  | { kind: 'none'; reason: string };

/** True for the folder itself and for every path below it. Both paths are absolute and normalised. */
export function isInside(path: string, folder: string): boolean {
  return path === folder || path.startsWith(folder.endsWith('/') ? folder : `${folder}/`);
}
