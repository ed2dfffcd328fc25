import { BursarError } from '../errors.ts';

/** What a job lacks: of time in seconds, of space in bytes. */
export interface Shortfall {
  resource: 'time' | 'space';
  /** The account that is too small: the project's pool, or the user's own cap. */
  account: 'pool' | 'cap';
  needed: number;
  available: number;
}

/** The refusal of a job for lack of quota, in the units that callers know, with the longest runtime that would fit. */
export function quotaExceeded(lack: Shortfall, longestRuntime: number): BursarError {
  const { resource, account } = lack;
  const [unit, size] = resource === 'time' ? ['seconds', 1] : ['KB', 1000];
  const needed = lack.needed / size;
  const available = lack.available / size;
  const whose = account === 'pool' ? "the project's pool" : 'your own quota';
  const advice =
    resource === 'time' && longestRuntime > 0
      ? `A runtime of up to ${longestRuntime} hours would fit.`
      : resource === 'time'
        ? 'Ask for less, or wait until running jobs have ended.'
        : 'Ask for less, or delete the files of finished jobs.';
  return new BursarError(
    'quota_exceeded',
    `The job needs ${needed} ${unit} of ${resource}, and ${whose} has ${available} available. ${advice}`,
    { facts: { resource, account, unit, needed, available, longest_runtime: longestRuntime } },
  );
}
