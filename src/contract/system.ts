import Type, { type Static } from 'typebox';
import type { SystemHealth } from '../domain/systems/health.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import { type HpcSystem, type JobResources, publicSystemName, type ToolParameter } from '../domain/systems/system.ts';
import { namedObject, nullable, time, timestamp, toIsoTime, toIsoTimeOrNull } from './fields.ts';

const limits = Type.Object({ nodes: Type.Integer(), cores_per_node: Type.Integer(), runtime: Type.Number() });

const inputLimits = Type.Object(
  {
    bytes: Type.Integer({ description: 'Maximum size of a zip.' }),
    entries: Type.Integer({ description: 'Maximum number of files and folders in a zip.' }),
    unpacked_bytes: Type.Integer({ description: 'Maximum unpacked size.' }),
    ratio: Type.Integer({ description: 'Maximum ratio of unpacked to packed size.' }),
    verified_bytes: Type.Integer({
      description: 'Unpacked size up to which the contents of a zip are verified before its job is accepted.',
    }),
  },
  { description: 'Limits on the zip of a submission, so that a client can check it before it sends it.' },
);

/** The public description of an HPC system, with its current health. */
export const SystemSchema = namedObject(
  'System',
  {
    hpc: Type.String({ description: 'Name in URL paths.' }),
    project_hpc: Type.String({ description: 'Name in JSON bodies.' }),
    kind: Type.Enum(['batch', 'tool'], {
      description: '`batch`: the Payload needs a `command`. `tool`: it needs a `tool`.',
    }),
    command_language: Type.String({
      description: 'The submit command that a `command` may be, and whose directives are read in scripts: `sbatch`.',
    }),
    default_project: Type.String(),
    charge: Type.Enum(['core', 'node', 'wall'], {
      description: 'Unit of `time_left`: core-seconds, node-seconds, or wall-clock seconds.',
    }),
    limits,
    defaults: limits,
    input_limits: inputLimits,
    runtime_policy: Type.Enum(['reject', 'clamp']),
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        entry: nullable(Type.String(), 'File that the zip must contain, because the tool reads it first.'),
        parameters: Type.Array(
          Type.Object({
            name: Type.String(),
            type: Type.Enum(['string', 'integer', 'number', 'words'], {
              description:
                '`words`: text that is split as a shell splits it, or a list. Each word becomes an argument.',
            }),
            required: Type.Boolean(),
            default: Type.Union([Type.String(), Type.Number(), Type.Null()]),
            values: nullable(Type.Array(Type.String()), 'The allowed values.'),
            pattern: nullable(Type.String(), 'A regular expression that must match the whole value, or every word.'),
            min: nullable(Type.Number(), 'The minimum.'),
            max: nullable(Type.Number(), 'The maximum.'),
          }),
        ),
      }),
    ),
    isolation: Type.Enum(['bubblewrap', 'none'], {
      description:
        '`bubblewrap`: a job sees only its own files and those of the operating system. `none`: a job can read and change ' +
        'the files of all other jobs of this system.',
    }),
    status: Type.Enum(['up', 'degraded', 'down']),
    status_since: timestamp,
    detail: Type.String({ description: 'Explanation of the status. Administrators see the error of the scheduler.' }),
    queued_jobs: Type.Integer(),
    running_jobs: Type.Integer(),
    paused_at: nullable(time, 'Since when the system accepts no submissions; null if it does.'),
    pause_reason: nullable(Type.String(), 'Why the system accepts no submissions; null if it does.'),
  },
  {
    hpc: 'hpc_one',
    project_hpc: 'HPC_ONE',
    command_language: 'sbatch',
    default_project: 'proj_hpc_one_01',
    limits: { nodes: 64, cores_per_node: 128, runtime: 48 },
    defaults: { nodes: 1, cores_per_node: 1, runtime: 1 },
    input_limits: {
      bytes: 2_000_000_000,
      entries: 20_000,
      unpacked_bytes: 10_000_000_000,
      ratio: 200,
      verified_bytes: 64_000_000,
    },
    tools: [],
    detail: 'the scheduler answers',
    queued_jobs: 0,
    running_jobs: 1,
  },
);

export interface SystemFields extends SystemHealth {
  system: HpcSystem;
  inputLimits: Static<typeof inputLimits>;
  defaultProject: string;
  isolation: Isolation['kind'];
  queued: number;
  running: number;
  pausedAt: number | null;
  pauseReason: string | null;
}

export function publicSystem(fields: SystemFields): Static<typeof SystemSchema> {
  const { system } = fields;
  const publicLimits = ({ nodes, coresPerNode, runtimeHours }: JobResources) => ({
    nodes,
    cores_per_node: coresPerNode,
    runtime: runtimeHours,
  });
  return {
    hpc: system.name,
    project_hpc: publicSystemName(system.name),
    kind: system.kind,
    command_language: system.commandLanguage.name,
    default_project: fields.defaultProject,
    charge: system.charge,
    limits: publicLimits(system.limits),
    defaults: publicLimits(system.defaults),
    input_limits: fields.inputLimits,
    runtime_policy: system.runtimePolicy,
    tools: Object.entries(system.tools).map(([name, { entry, parameters }]) => ({
      name,
      entry: entry ?? null,
      parameters: Object.entries(parameters).map(publicParameter),
    })),
    isolation: fields.isolation,
    status: fields.status,
    status_since: toIsoTime(fields.since),
    detail: fields.detail,
    queued_jobs: fields.queued,
    running_jobs: fields.running,
    paused_at: toIsoTimeOrNull(fields.pausedAt),
    pause_reason: fields.pauseReason,
  };
}

function publicParameter([name, parameter]: [string, ToolParameter]) {
  const { type, required, default: fallback = null, values, pattern = null, min = null, max = null } = parameter;
  return { name, type, required, default: fallback, values: values ? [...values] : null, pattern, min, max };
}
