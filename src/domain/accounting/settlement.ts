import { assertNever } from '../errors.ts';
import type { JobEnd, Outcome } from '../jobs/job.ts';
import { type ChargeUnit, countAllocatedUnits } from './price.ts';

/** The balance of one account, in seconds (time) or bytes (space). */
export interface AccountBalance {
  granted: number;
  held: number;
  posted: number;
  /** Usage beyond the grants. */
  overrun: number;
}

/** The amount available to new holds. A negative amount (overrun) blocks new jobs until a grant covers it. */
export function availableBalance(account: AccountBalance): number {
  return account.granted - account.posted - account.held - account.overrun;
}

/** The remaining quota shown to a user: the smaller of the project's pool and the user's cap, never below zero. */
export function remainingQuota(pool: AccountBalance, cap: AccountBalance): number {
  return Math.max(0, Math.min(availableBalance(pool), availableBalance(cap)));
}

/** The deltas of one ledger entry. The balance of an account is always the sum of its movements. */
export type Movement = AccountBalance;

export const zeroMovement: Movement = { granted: 0, held: 0, posted: 0, overrun: 0 };

/**
 * Splits usage, after its hold was released: the part that the account covers is posted, the rest is overrun.
 * Usage is always recorded in full, never refused.
 */
export function splitUsage(account: AccountBalance, used: number): Pick<Movement, 'posted' | 'overrun'> {
  const posted = Math.min(used, Math.max(0, availableBalance(account)));
  return { posted, overrun: used - posted };
}

/** The resolution of a job's hold on time. */
export interface Settlement {
  kind: 'settled' | 'voided';
  timeSeconds: number;
  /** Why the job was charged or not, as stored in the ledger. */
  rule: string;
}

/**
 * Calculates the charge of a finished job: its elapsed seconds times the units that the system reports as allocated,
 * or the requested units if the system reports none. Jobs that never ran, or that the system itself ended, cost nothing.
 * No job pays for more than its granted runtime: the system may stop it late, or report a wrong time.
 */
export function calculateSettlement(
  end: JobEnd,
  { requestedUnits, runtimeSeconds }: { requestedUnits: number; runtimeSeconds: number },
  unit: ChargeUnit,
): Settlement {
  const exemption = findExemption(end.outcome);
  if (exemption !== null) return { kind: 'voided', timeSeconds: 0, rule: exemption };
  if (end.startedAt === null) return { kind: 'voided', timeSeconds: 0, rule: `never ran: ${end.outcome}` };
  const units = end.allocation === undefined ? requestedUnits : countAllocatedUnits(end.allocation, unit);
  return {
    kind: 'settled',
    timeSeconds: Math.min(end.elapsedSeconds, runtimeSeconds) * units,
    rule: `used: ${end.outcome}`,
  };
}

/** Returns why a job with this outcome is not charged, or null if it pays for its usage. */
function findExemption(outcome: Outcome): string | null {
  switch (outcome) {
    case 'succeeded':
    case 'failed':
    case 'timed_out':
    case 'out_of_memory':
    case 'output_exceeded':
    case 'cancelled':
    case 'cancelled_by_site':
      return null;
    case 'rejected':
      return 'never ran: rejected by the system';
    case 'lost':
      return 'lost by the system';
    case 'node_failed':
      return 'failed by the system: node failure';
    case 'preempted':
      return 'stopped by the system: preempted';
    default:
      return assertNever(outcome);
  }
}
