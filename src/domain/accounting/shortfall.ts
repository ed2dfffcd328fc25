import { BursarError } from '../errors.ts';
import { formatAmount, formatRuntime } from '../format-amount.ts';
import { publicUnits } from '../units.ts';
import type { ChargeUnit } from './charge.ts';

/** The account that cannot cover a job, with amounts in ledger units (seconds or bytes). */
export interface Shortfall {
  resource: 'time' | 'space';
  /** The project's pool, or the user's own cap. */
  account: 'pool' | 'cap';
  needed: number;
  available: number;
}

/** The error for a job that exceeds its quota. Its details are exact, in public units; its message is for people. */
export function quotaExceeded(shortfall: Shortfall, longestRuntimeHours: number, charge: ChargeUnit): BursarError {
  const { resource, account, needed, available } = shortfall;
  const unit = publicUnits[resource];
  const accountName = account === 'pool' ? "the project's pool" : 'your own quota';
  const amount = (value: number) => formatAmount(resource, value, charge);
  const advice =
    resource === 'time' && longestRuntimeHours > 0
      ? `A runtime of up to ${formatRuntime(longestRuntimeHours)} would fit.`
      : resource === 'time'
        ? 'Ask for less, or wait until running jobs have ended.'
        : 'Ask for less, or delete the files of finished jobs.';
  return new BursarError(
    'quota_exceeded',
    `The job needs ${amount(needed)} of ${resource}, but ${accountName} has only ${amount(available)} available: ` +
      `${amount(needed - available)} too little. ${advice}`,
    {
      details: {
        resource,
        account,
        unit: unit.name,
        needed: needed / unit.size,
        available: available / unit.size,
        longest_runtime: longestRuntimeHours,
      },
    },
  );
}
