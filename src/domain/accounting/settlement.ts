import { assertNever } from '../errors.ts';
import type { JobEnd, Outcome } from '../jobs/job.ts';
import { type ChargeUnit, countAllocatedUnits } from './price.ts';

/** The balance of one account, in seconds (time) or bytes (space). */
export interface AccountBalance {
  granted: number;
  held: number;
  posted: number;
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
  /** Why the job was charged or not. The ledger entry shows it. */
  rule: string;
}

/**
 * Calculates the charge of a finished job: its elapsed seconds times the units that the system reports as allocated,
 * or the requested units if the system reports none. Jobs that never ran or that the system failed cost nothing.
 */
export function calculateSettlement(end: JobEnd, requestedUnits: number, charge: ChargeUnit): Settlement {
  const rule = chargeRule(end.outcome);
  if (!rule.isCharged) return { kind: 'voided', timeSeconds: 0, rule: rule.reason };
  if (end.startedAt === null) return { kind: 'voided', timeSeconds: 0, rule: `never ran: ${end.outcome}` };
  const units = end.allocation === undefined ? requestedUnits : countAllocatedUnits(end.allocation, charge);
  return { kind: 'settled', timeSeconds: end.elapsedSeconds * units, rule: `used: ${end.outcome}` };
}

type ChargeRule = { isCharged: true } | { isCharged: false; reason: string };

/** A job that ran pays for its usage, unless the system itself caused its end. */
function chargeRule(outcome: Outcome): ChargeRule {
  switch (outcome) {
    case 'succeeded':
    case 'failed':
    case 'timed_out':
    case 'out_of_memory':
    case 'output_exceeded':
    case 'cancelled':
    case 'cancelled_by_site':
      return { isCharged: true };
    case 'rejected':
      return { isCharged: false, reason: 'never ran: rejected by the system' };
    case 'lost':
      return { isCharged: false, reason: 'lost by the system' };
    case 'node_failed':
      return { isCharged: false, reason: 'failed by the system: node failure' };
    case 'preempted':
      return { isCharged: false, reason: 'stopped by the system: preempted' };
    default:
      return assertNever(outcome);
  }
}
