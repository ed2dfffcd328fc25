import { type BatchIsolation, type BatchOptions, batchDefinition, createBatchBackend } from '../batch/backend.ts';
import { createBatchEngine } from '../batch/engine.ts';
import { createRunCommand } from '../batch/run-command.ts';
import type { EngineDefinition } from '../definition.ts';
import type { Engine } from '../engine.ts';
import { checkSlurm } from './checks.ts';
import type { Accounting } from './sacct.ts';
import { sbatchLanguage } from './sbatch-language.ts';
import { createSlurmScheduler, slurmVariables } from './scheduler.ts';
import { type SlurmSettings, slurmSchema } from './schema.ts';
import { buildSlurmScript } from './steps.ts';

export interface SlurmEngineOptions extends BatchOptions {
  accounting: Accounting;
  now?: () => number;
}

/** Runs jobs through Slurm's command line. */
export function createSlurmEngine({ accounting, isolation, now = Date.now, ...options }: SlurmEngineOptions): Engine {
  const run = createRunCommand(options, slurmVariables);
  return createBatchEngine({
    scheduler: createSlurmScheduler(run, accounting, now),
    run,
    isLocal: options.shell.isLocal,
    buildScript: (job) => buildSlurmScript(job, isolation),
    now,
  });
}

export const slurmEngine: EngineDefinition<SlurmSettings, BatchIsolation> = {
  schema: slurmSchema,
  commandLanguage: sbatchLanguage,
  scheduler: { name: 'Slurm', listCommand: 'squeue', taskCommand: 'srun -N1 -n1 bash -c' },
  ...batchDefinition,
  createBackend(context) {
    const { accounting } = context.system.engine;
    return createBatchBackend(context, (options) => createSlurmEngine({ ...options, accounting }));
  },
  runChecks: checkSlurm,
};
