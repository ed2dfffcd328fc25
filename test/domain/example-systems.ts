import type { HpcSystem, Tool } from '../../src/domain/systems/system.ts';
import { sbatchLanguage } from '../../src/engines/slurm/sbatch-language.ts';

const stages = {
  queued: 'QUEUED',
  running: 'RUNNING',
  succeeded: 'SUCCESSFUL',
  failed: 'FAILED',
  cancelled: 'CANCELED',
  deleted: 'DELETED',
};

/** A batch system with the limits of the shipped configuration. */
export const batchSystem: HpcSystem = {
  name: 'hpc_one',
  kind: 'batch',
  commandLanguage: sbatchLanguage,
  stages,
  charge: 'core',
  limits: { nodes: 64, coresPerNode: 128, runtimeHours: 48, files: 200_000 },
  runtimePolicy: 'reject',
  defaults: { nodes: 2, coresPerNode: 3, runtimeHours: 1.5 },
  tools: {},
};

export const plainTool: Tool = { command: ['bash', 'main.sh'], entry: 'main.sh', parameters: {} };

/** A tool system that reduces runtimes to its limit. */
export function toolSystem(tools: Record<string, Tool> = { BASH: plainTool }): HpcSystem {
  return {
    ...batchSystem,
    name: 'hpc_two',
    kind: 'tool',
    stages: { ...stages, queued: 'QUEUE', succeeded: 'COMPLETED' },
    jobIdPrefix: 'BURSAR-JOB',
    limits: { nodes: 64, coresPerNode: 128, runtimeHours: 0.5, files: 200_000 },
    runtimePolicy: 'clamp',
    defaults: { nodes: 1, coresPerNode: 1, runtimeHours: 0.5 },
    tools,
  };
}
