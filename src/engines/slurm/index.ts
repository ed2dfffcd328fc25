import { createBatchBackend } from '../batch/backend.ts';
import { type BatchIsolation, resolveBatchIsolation } from '../batch/resolve-isolation.ts';
import type { EngineDefinition } from '../definition.ts';
import { checkSlurm } from './checks.ts';
import { createSlurmEngine } from './engine.ts';
import { sbatchLanguage } from './sbatch-language.ts';
import { type SlurmSettings, slurmSchema } from './schema.ts';

export const slurmEngine: EngineDefinition<SlurmSettings, BatchIsolation> = {
  schema: slurmSchema,
  commandLanguage: sbatchLanguage,
  scheduler: { name: 'Slurm', listCommand: 'squeue', taskCommand: 'srun -N1 -n1 bash -c' },
  findErrors: ({ ssh, workspaceFolder }) =>
    ssh === undefined || workspaceFolder !== undefined
      ? []
      : [['workspaceFolder', 'is required with ssh: set it to a folder on the cluster']],
  resolveIsolation: resolveBatchIsolation,
  createBackend(context) {
    const { system, isolation, onCommand, onCommandEnd } = context;
    const { accounting, commandTimeoutSeconds, environment } = system.engine;
    return createBatchBackend(context, (shell) =>
      createSlurmEngine({
        shell,
        accounting,
        commandTimeoutMs: commandTimeoutSeconds * 1000,
        isolation: isolation.sandbox ?? null,
        configuredVariables: Object.keys(environment),
        onCommand,
        onCommandEnd,
      }),
    );
  },
  runChecks: checkSlurm,
};
