import { type Allocation, type ChargeUnit, unitsOf } from './price.ts';

/** The longest runtime, in hours, that so many charged seconds pay for; never more than the system allows. */
export function longestRuntimeHours(
  allocation: Allocation,
  unit: ChargeUnit,
  availableSeconds: number,
  limitHours: number,
): number {
  const seconds = Math.floor(Math.max(0, availableSeconds) / unitsOf(allocation, unit));
  return Math.min(limitHours, seconds / 3600);
}
