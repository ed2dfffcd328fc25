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
  return wholeSeconds(runtimeHours * 3600 * unitsOf(allocation, unit));
}

/** The time limit of a job, in seconds of wall-clock time. */
export function limitSeconds(runtimeHours: number): number {
  return wholeSeconds(runtimeHours * 3600);
}

/** Rounded up, but not by the dust of floating point: 0.1 h is 360 s, not 361. */
function wholeSeconds(seconds: number): number {
  return Math.ceil(Number(seconds.toFixed(6)));
}
