import { createBatchEngine } from '../batch/engine.ts';
import type { BatchIsolation } from '../batch/resolve-isolation.ts';
import { type CommandOptions, createRunCommand } from '../batch/run-command.ts';
import type { Engine } from '../engine.ts';
import type { Accounting } from './sacct.ts';
import { createSlurmScheduler, slurmVariables } from './scheduler.ts';
import { buildSlurmScript } from './steps.ts';

export interface SlurmEngineOptions extends CommandOptions {
  accounting: Accounting;
  /** How jobs are isolated; null if they are not. */
  isolation: BatchIsolation | null;
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
