import { formatBytes, formatNumber } from '../ui/format.ts';

export type Resource = 'time' | 'space';

/** Time is accounted in seconds of the unit that the system charges, and shown in hours. */
const timeUnits = { core: 'core-h', node: 'node-h', wall: 'h' } as const;

export type ChargeUnit = keyof typeof timeUnits;

/** The unit of hours of a system: `core-h`. */
export const timeUnitOf = (charge: ChargeUnit) => timeUnits[charge];

/** The unit in which amounts of the API are given, as the unit that the system charges. */
export function chargeOf(unit: string): ChargeUnit {
  if (unit === 'core-seconds') return 'core';
  return unit === 'node-seconds' ? 'node' : 'wall';
}

/** An amount of a quota for people: `4,976 core-h`, `120 MB`. Space is accounted in KB. */
export function formatAmount(resource: Resource, amount: number, charge: ChargeUnit = 'core'): string {
  if (resource === 'space') return formatBytes(amount * 1000);
  const hours = amount / 3600;
  // A short job costs little, but not nothing.
  const text = hours > 0 && hours < 0.005 ? '< 0.01' : formatNumber(hours);
  return `${text} ${timeUnits[charge]}`;
}
