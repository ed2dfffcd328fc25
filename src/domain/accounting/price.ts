import type { Allocation } from '../jobs/job.ts';
import { secondsPerHour } from '../units.ts';

/** The unit that a system charges for: core-seconds, node-seconds, or seconds of wall-clock time. */
export type ChargeUnit = 'core' | 'node' | 'wall';

export interface RequestedResources {
  nodes: number;
  coresPerNode: number;
}

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
