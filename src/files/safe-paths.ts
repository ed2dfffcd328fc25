import { BursarError } from '../domain/errors.ts';

/** Deeper than real folder trees. The limit stops a job from keeping a reader busy with an endless chain of folders. */
export const maxFolderDepth = 100;

export function isJobId(text: string): boolean {
  return /^[A-Z0-9_-]+$/.test(text);
}

/**
 * Returns the job id, or throws. Bursar generates all job ids itself, so this is defence in depth: no path is ever
 * built from text that contains a dot or a slash.
 */
export function requireJobId(jobId: string): string {
  if (!isJobId(jobId)) {
    throw new BursarError('internal', 'A path was requested for an invalid job id. Please report this.');
  }
  return jobId;
}

/**
 * Splits the path of a file in a workspace into its names. Returns undefined if the path cannot exist in a workspace.
 * Paths must be spelt exactly as they are listed. They are never normalised, so no spelling can bypass a check.
 */
export function parseFilePath(text: string): string[] | undefined {
  if (text === '') return [];
  const names = text.split('/');
  const isName = (name: string) => name !== '' && name !== '.' && name !== '..' && !name.includes('\0');
  return names.length <= maxFolderDepth && names.every(isName) ? names : undefined;
}
