import { BursarError } from '../domain/errors.ts';

/**
 * Gives the id back, or throws. Job ids are made by Bursar itself, so this is the second belt: whatever else
 * goes wrong, no path is ever built from anything that holds a dot or a slash.
 */
export function checkedJobId(jobId: string): string {
  if (!isJobId(jobId)) {
    throw new BursarError('internal', 'A path was asked for something that is not a job id. Please report this.');
  }
  return jobId;
}

export function isJobId(text: string): boolean {
  return /^[A-Z0-9_-]+$/.test(text);
}
