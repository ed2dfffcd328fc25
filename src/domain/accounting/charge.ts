import { assertNever } from '../errors.ts';
import type { Allocation, JobEnd, JobRequest, Outcome } from '../jobs/job.ts';
import { secondsPerHour } from '../units.ts';

/** The unit that a system charges for: core-seconds, node-seconds, or seconds of wall-clock time. */
export type ChargeUnit = 'core' | 'node' | 'wall';

type RequestedResources = Pick<JobRequest, 'nodes' | 'coresPerNode'>;

/** Charged seconds per second of wall-clock time, for the resources that a job requests. */
export function countRequestedUnits({ nodes, coresPerNode }: RequestedResources, unit: ChargeUnit): number {
  return countAllocatedUnits({ nodes, cores: nodes * coresPerNode }, unit);
}

/** Charged seconds per second of wall-clock time, for an allocation. */
export function countAllocatedUnits({ nodes, cores }: Allocation, unit: ChargeUnit): number {
  if (unit === 'wall') return 1;
  return unit === 'node' ? nodes : cores;
}

/** The maximum cost of a job in charged seconds. Submission places a hold of this amount. */
export function calculateCostSeconds(resources: RequestedResources, runtimeHours: number, unit: ChargeUnit): number {
  return toWholeSeconds(runtimeHours, secondsPerHour * countRequestedUnits(resources, unit));
}

/** The wall-clock time limit of a job. */
export function toTimeLimitSeconds(runtimeHours: number): number {
  return toWholeSeconds(runtimeHours, secondsPerHour);
}

/** The longest runtime that `availableSeconds` charged seconds pay for, capped at the system's `limitHours`. */
export function maxAffordableRuntimeHours(
  resources: RequestedResources,
  unit: ChargeUnit,
  availableSeconds: number,
  limitHours: number,
): number {
  const seconds = Math.floor(Math.max(0, availableSeconds) / countRequestedUnits(resources, unit));
  return Math.min(limitHours, seconds / secondsPerHour);
}

/**
 * Multiplies and rounds up, exactly, using the decimal digits of `hours` instead of its binary value: 0.1 h is 360 s,
 * not 361. A relative error of 1e-15 is subtracted first, so that 0.1 + 0.2 h (0.30000000000000004) is 1080 s, not 1081.
 */
function toWholeSeconds(hours: number, chargedSecondsPerHour: number): number {
  const [mantissa = '', exponent = ''] = hours.toExponential().split('e');
  const [integerDigits = '', fractionDigits = ''] = mantissa.split('.');
  const decimals = fractionDigits.length - Number(exponent);
  const exactProduct = BigInt(integerDigits + fractionDigits) * BigInt(chargedSecondsPerHour);
  const product = exactProduct - exactProduct / 10n ** 15n;
  if (decimals <= 0) return Number(product * 10n ** BigInt(-decimals));
  const divisor = 10n ** BigInt(decimals);
  return Number((product + divisor - 1n) / divisor);
}

/** The balance of one account, in seconds (time) or bytes (space). */
export interface AccountBalance {
  granted: number;
  /** Reserved for unfinished jobs. */
  held: number;
  /** Used within the grant. */
  posted: number;
  /** Used beyond the grant. */
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

/** Percentages of a grant at which users are notified, highest first. */
const thresholds = [100, 80] as const;

export type Threshold = 0 | (typeof thresholds)[number];

/** The highest threshold that usage has reached. Holds do not count, because they may be released. */
export function thresholdReached({ granted, posted, overrun }: AccountBalance): Threshold {
  const used = posted + overrun;
  if (used === 0) return 0;
  return thresholds.find((percent) => used * 100 >= granted * percent) ?? 0;
}
