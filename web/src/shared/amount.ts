import type { ChargeUnit } from '../../../src/domain/accounting/charge.ts';
import { formatBytes, formatCharge } from '../../../src/domain/format-amount.ts';

export type { ChargeUnit };
export type Resource = 'time' | 'space';

const timeUnits: Record<ChargeUnit, string> = { core: 'core-h', node: 'node-h', wall: 'h' };

/** The unit of hours of a system: `core-h`. */
export const timeUnitOf = (charge: ChargeUnit) => timeUnits[charge];

/** The unit in which amounts of the API are given, as the unit that the system charges. */
export function chargeOf(unit: string): ChargeUnit {
  if (unit === 'core-seconds') return 'core';
  return unit === 'node-seconds' ? 'node' : 'wall';
}

/** An amount of a quota for people: `4,980 core-h`, `120 MB`. The API has seconds and KB. */
export function formatAmount(resource: Resource, amount: number, charge: ChargeUnit = 'core'): string {
  return resource === 'space' ? formatBytes(amount * 1000) : formatCharge(amount, charge);
}
