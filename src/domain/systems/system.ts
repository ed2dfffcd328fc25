import type { ChargeUnit } from '../accounting/charge.ts';
import type { CommandLanguage } from '../jobs/command.ts';
import type { StageNames } from '../jobs/job.ts';

/** A Payload field that a tool declares in addition to the common fields. */
export interface ToolParameter {
  /** `words` is a list of words, each of which becomes an argument. */
  type: 'string' | 'integer' | 'number' | 'words';
  required: boolean;
  default?: string | number;
  /** For strings and words: a regular expression that must match the whole value, or every word. */
  pattern?: string;
  /** For strings and words: the allowed values. */
  values?: readonly string[];
  /** For strings and words: whether a value may begin with `-`, and could be mistaken for an option. */
  allowOptions?: boolean;
  min?: number;
  max?: number;
}

export interface Tool {
  /** The argv, run without a shell. `{name}` is replaced by the value of that parameter, or by its words. */
  command: readonly string[];
  /** The file in the zip that the tool reads first. */
  entry?: string;
  parameters: Readonly<Record<string, ToolParameter>>;
}

export interface JobResources {
  nodes: number;
  coresPerNode: number;
  runtimeHours: number;
}

/** The configuration of an HPC system that the domain rules need. */
export interface HpcSystem {
  /** As in URL paths, such as `hpc_one`. */
  name: string;
  kind: 'batch' | 'tool';
  commandLanguage: CommandLanguage;
  stages: StageNames;
  /** Undefined: job identifiers are UUIDs. */
  jobIdPrefix?: string;
  charge: ChargeUnit;
  limits: JobResources & { /** Files and folders in the workspace of a job. */ files: number };
  /** Whether a runtime over the limit is rejected, or reduced to the limit. */
  runtimePolicy: 'reject' | 'clamp';
  defaults: JobResources;
  tools: Readonly<Record<string, Tool>>;
}

/** The name in JSON bodies, such as `HPC_ONE`. */
export function publicSystemName(name: string): string {
  return name.toUpperCase();
}

/** Formats a new UUID as a job identifier in the style of the system. */
export function formatJobId(system: HpcSystem, tool: string | null, uuid: string): string {
  const upper = uuid.toUpperCase();
  if (system.jobIdPrefix === undefined) return upper;
  const hexDigits = upper.replaceAll('-', '');
  return [system.jobIdPrefix, tool, hexDigits].filter((part) => part !== null).join('-');
}
