import Type, { type Static } from 'typebox';
import type { HpcSystem, ToolParameter } from '../domain/systems/system.ts';
import { publicSystemName } from '../domain/systems/system.ts';
import { toIsoTime } from './json-format.ts';

const limits = Type.Object({ nodes: Type.Integer(), cores_per_node: Type.Integer(), runtime: Type.Number() });
const instantOrNull = Type.Union([Type.String(), Type.Null()]);

/** An HPC system as its users see it: what it takes, and how it does. */
export const SystemSchema = Type.Object(
  {
    hpc: Type.String({ description: 'Its name in paths.' }),
    project_hpc: Type.String({ description: 'Its name in bodies.' }),
    kind: Type.Enum(['batch', 'tool'], { description: 'Whether a Payload has a `command` or a `tool`.' }),
    default_project: Type.String(),
    charge: Type.Enum(['core', 'node', 'wall'], { description: 'What `time_left` is counted in.' }),
    limits,
    defaults: limits,
    runtime_policy: Type.Enum(['reject', 'clamp']),
    tools: Type.Array(
      Type.Object({
        name: Type.String(),
        entry: Type.Union([Type.String(), Type.Null()], { description: 'The file of the zip that it starts from.' }),
        parameters: Type.Array(
          Type.Object({
            name: Type.String(),
            type: Type.String(),
            required: Type.Boolean(),
            default: Type.Union([Type.String(), Type.Number(), Type.Null()]),
          }),
        ),
      }),
    ),
    status: Type.Enum(['up', 'degraded', 'down']),
    status_since: Type.String(),
    detail: Type.String(),
    queued_jobs: Type.Integer(),
    running_jobs: Type.Integer(),
    paused_at: Type.Union([Type.String(), Type.Null()], { description: 'Set while it takes no submissions.' }),
    pause_reason: instantOrNull,
  },
  { $id: 'System', additionalProperties: false },
);

export interface SystemFields {
  system: HpcSystem;
  defaultProject: string;
  status: 'up' | 'degraded' | 'down';
  since: number;
  detail: string;
  queued: number;
  running: number;
  pausedAt: number | null;
  pauseReason: string | null;
}

export function publicSystem(facts: SystemFields): Static<typeof SystemSchema> {
  const { system } = facts;
  const publicLimits = ({ nodes, coresPerNode, runtimeHours }: HpcSystem['limits']) => ({
    nodes,
    cores_per_node: coresPerNode,
    runtime: runtimeHours,
  });
  return {
    hpc: system.name,
    project_hpc: publicSystemName(system.name),
    kind: system.kind,
    default_project: facts.defaultProject,
    charge: system.charge,
    limits: publicLimits(system.limits),
    defaults: publicLimits(system.defaults),
    runtime_policy: system.runtimePolicy,
    tools: Object.entries(system.tools).map(([name, { entry, parameters }]) => ({
      name,
      entry: entry ?? null,
      parameters: Object.entries(parameters).map(publicParameter),
    })),
    status: facts.status,
    status_since: toIsoTime(facts.since),
    detail: facts.detail,
    queued_jobs: facts.queued,
    running_jobs: facts.running,
    paused_at: facts.pausedAt === null ? null : toIsoTime(facts.pausedAt),
    pause_reason: facts.pauseReason,
  };
}

function publicParameter([name, { type, required, default: fallback }]: [string, ToolParameter]) {
  return { name, type, required, default: fallback ?? null };
}
