/** What a system charges for: core-seconds, node-seconds, or seconds of wall-clock time. */
export type ChargeUnit = 'core' | 'node' | 'wall';

export interface Allocation {
  nodes: number;
  coresPerNode: number;
}

/** Charged seconds for one second of wall-clock time. */
export function unitsOf(allocation: Allocation, unit: ChargeUnit): number {
  if (unit === 'wall') return 1;
  return unit === 'node' ? allocation.nodes : allocation.nodes * allocation.coresPerNode;
}

/** The same, by what a system says that it gave: cores in all, not on each node. */
export function allocatedUnits({ nodes, cores }: { nodes: number; cores: number }, unit: ChargeUnit): number {
  if (unit === 'wall') return 1;
  return unit === 'node' ? nodes : cores;
}

/** What a job may use at the most, in charged seconds: this is held at submission. */
export function costSeconds(allocation: Allocation, runtimeHours: number, unit: ChargeUnit): number {
  return wholeSeconds(runtimeHours, 3600 * unitsOf(allocation, unit));
}

/** The time limit of a job, in seconds of wall-clock time. */
export function limitSeconds(runtimeHours: number): number {
  return wholeSeconds(runtimeHours, 3600);
}

/**
 * Rounded up, by the decimal number that was written and not by its binary neighbour: 0.1 h is 360 s, not 361. Of a
 * number that is itself rounded, such as a third of an hour, the last digit does not count.
 */
function wholeSeconds(hours: number, secondsPerHour: number): number {
  const [digits = '', exponent = ''] = hours.toExponential().split('e');
  const [whole = '', fraction = ''] = digits.split('.');
  const decimals = fraction.length - Number(exponent);
  const written = BigInt(whole + fraction) * BigInt(secondsPerHour);
  const product = written - written / 10n ** 15n;
  if (decimals <= 0) return Number(product * 10n ** BigInt(-decimals));
  const divisor = 10n ** BigInt(decimals);
  return Number((product + divisor - 1n) / divisor);
}
