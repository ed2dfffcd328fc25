import type { ChargeUnit } from '../accounting/price.ts';
import type { StageNames } from '../jobs/stage.ts';

/** A parameter that a tool declares for its Payload, beside the fields that every job has. */
export interface ToolParameter {
  type: 'string' | 'integer' | 'number';
  required: boolean;
  default?: string | number;
  /** For text: a regular expression that the whole value must match. */
  pattern?: string;
  values?: readonly string[];
  min?: number;
  max?: number;
}

export interface Tool {
  /** The argv; `{name}` in it stands for a parameter's value. No shell is involved. */
  command: readonly string[];
  /** The file of the zip that the tool starts from. */
  entry?: string;
  parameters: Readonly<Record<string, ToolParameter>>;
}

export interface SystemLimits {
  nodes: number;
  coresPerNode: number;
  runtimeHours: number;
}

/** An HPC system as the rules see it: what it takes, what it charges, what words it uses. */
export interface HpcSystem {
  /** As in paths, such as `hpc_one`. */
  name: string;
  kind: 'batch' | 'tool';
  /** What runs its jobs. */
  scheduler: 'local' | 'slurm';
  stages: StageNames;
  jobId: { style: 'uuid' } | { style: 'prefixed'; prefix: string };
  charge: ChargeUnit;
  limits: SystemLimits;
  /** What happens to a runtime over the limit. */
  runtimePolicy: 'reject' | 'clamp';
  defaults: SystemLimits;
  tools: Readonly<Record<string, Tool>>;
}

/** As in bodies, such as `HPC_ONE`. */
export function publicSystemName(name: string): string {
  return name.toUpperCase();
}

/** A new job's identifier on the system, in the form of that system, from a fresh UUID. */
export function createJobId(system: HpcSystem, tool: string | null, uuid: string): string {
  const upper = uuid.toUpperCase();
  if (system.jobId.style === 'uuid') return upper;
  const token = upper.replaceAll('-', '');
  return [system.jobId.prefix, tool, token].filter((part) => part !== null).join('-');
}
