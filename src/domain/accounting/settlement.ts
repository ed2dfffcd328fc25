import { unreachable } from '../errors.ts';
import type { JobEnd, Outcome } from '../jobs/job.ts';
import { allocatedUnits, type ChargeUnit } from './price.ts';

/** An account's own figures: seconds of time, or bytes of space. */
export interface AccountBalance {
  granted: number;
  held: number;
  posted: number;
  overrun: number;
}

/** What a new hold may take. Negative when more was used than granted: that blocks new jobs until it is covered. */
export function available(account: AccountBalance): number {
  return account.granted - account.posted - account.held - account.overrun;
}

/** What a user sees as left: the smaller of the project's pool and the user's own cap, never below zero. */
export function remaining(pool: AccountBalance, cap: AccountBalance): number {
  return Math.max(0, Math.min(available(pool), available(cap)));
}

/** The changes that one act makes to an account. The account's figures are the sum of them, for ever. */
export type Movement = AccountBalance;

export const noMovement: Movement = { granted: 0, held: 0, posted: 0, overrun: 0 };

/**
 * How use is recorded once its hold is let go: as far as the account covers it as posted, the rest as overrun.
 * What was used is always recorded, never refused.
 */
export function cover(account: AccountBalance, used: number): Pick<Movement, 'posted' | 'overrun'> {
  const posted = Math.min(used, Math.max(0, available(account)));
  return { posted, overrun: used - posted };
}

export interface Usage {
  kind: 'settled' | 'voided';
  timeSeconds: number;
  /** Why it was charged or not, for the ledger's entry. */
  rule: string;
}

/**
 * What a finished job owes in time: charged seconds for each second that it ran, by what the system says that it gave
 * it, or else by the `units` that it asked for; or nothing at all.
 */
export function usageOf(end: JobEnd, askedUnits: number, charge: ChargeUnit): Usage {
  const rule = chargeRule(end.outcome);
  if (!rule.charged) return { kind: 'voided', timeSeconds: 0, rule: rule.rule };
  if (end.startedAt === null) return { kind: 'voided', timeSeconds: 0, rule: `never ran: ${end.outcome}` };
  const units = end.allocation === undefined ? askedUnits : allocatedUnits(end.allocation, charge);
  return { kind: 'settled', timeSeconds: end.elapsedSeconds * units, rule: `used: ${end.outcome}` };
}

type ChargeRule = { charged: true } | { charged: false; rule: string };

/** Who pays: a job that ran pays for what it used, unless the system itself failed it. */
function chargeRule(outcome: Outcome): ChargeRule {
  switch (outcome) {
    case 'succeeded':
    case 'failed':
    case 'timed_out':
    case 'out_of_memory':
    case 'output_exceeded':
    case 'cancelled':
    case 'cancelled_by_site':
      return { charged: true };
    case 'rejected':
      return { charged: false, rule: 'never ran: rejected by the system' };
    case 'lost':
      return { charged: false, rule: 'lost by the system' };
    case 'node_failed':
      return { charged: false, rule: 'failed by the system: node failure' };
    case 'preempted':
      return { charged: false, rule: 'stopped by the system: preempted' };
    default:
      return unreachable(outcome);
  }
}
