import { BursarError } from '../errors.ts';
import { publicUnits } from '../units.ts';

/** The account that cannot cover a job, with amounts in ledger units (seconds or bytes). */
export interface Shortfall {
  resource: 'time' | 'space';
  /** The project's pool, or the user's own cap. */
  account: 'pool' | 'cap';
  needed: number;
  available: number;
}

/** The error for a job that exceeds its quota, in public units. */
export function quotaExceeded(shortfall: Shortfall, longestRuntimeHours: number): BursarError {
  const { resource, account } = shortfall;
  const unit = publicUnits[resource];
  const needed = shortfall.needed / unit.size;
  const available = shortfall.available / unit.size;
  const accountName = account === 'pool' ? "the project's pool" : 'your own quota';
  const advice =
    resource === 'time' && longestRuntimeHours > 0
      ? `A runtime of up to ${longestRuntimeHours} hours would fit.`
      : resource === 'time'
        ? 'Ask for less, or wait until running jobs have ended.'
        : 'Ask for less, or delete the files of finished jobs.';
  return new BursarError(
    'quota_exceeded',
    `The job needs ${needed} ${unit.name} of ${resource}, but ${accountName} has only ${available} available. ${advice}`,
    { details: { resource, account, unit: unit.name, needed, available, longest_runtime: longestRuntimeHours } },
  );
}
