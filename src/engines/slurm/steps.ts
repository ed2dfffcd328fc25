import type { BatchIsolation } from '../batch/resolve-isolation.ts';
import { readShellProgram, type ShellVariables, setVariables } from '../batch/shell-program.ts';
import { buildWrapper } from '../batch/wrapper.ts';
import type { EngineJob } from '../engine.ts';
import { ownOptions, stepOptionPattern, stepOptions } from './step-options.ts';

export const stepsProgram = readShellProgram('steps.sh', import.meta.url);

/** Slurm's commands that are replaced inside the isolation. All of them but `srun` only say that they are not available. */
export const replacedCommands = [
  ...['srun', 'sbatch', 'salloc', 'sattach', 'sbcast'],
  ...['scancel', 'squeue', 'sinfo', 'scontrol', 'sacct'],
];

/** The folder inside the isolation that holds the FIFOs of `srun`. */
export const requestFolder = '/run/bursar';

/** What both ends of a request know. */
const common = {
  request_folder: requestFolder,
  /** The signals that `srun` passes on to its tasks. */
  step_signals: ['HUP', 'INT', 'QUIT', 'USR1', 'USR2', 'ALRM', 'TERM', 'CONT'],
  /** How long the program inside and the wrapper wait for each other. */
  answer_seconds: 60,
  /** Enough for any command line and environment that Linux accepts in practice. */
  max_request_bytes: 1_048_576,
};

const options = Object.entries({ ...stepOptions, ...ownOptions });

/** The program that takes the place of Slurm's commands inside the isolation. */
export const srunProgram = [
  '#!/bin/bash\n# Written by Bursar.\n',
  setVariables({
    ...common,
    option_kinds: new Map(options.map(([name, { value = 'none' }]) => [name, value])),
    short_options: new Map(options.flatMap(([name, { short }]) => (short === undefined ? [] : [[short, name]]))),
  }),
  readShellProgram('srun.sh', import.meta.url),
].join('');

/** The variables of steps.sh. */
export const stepVariables = (jobId: string, { scheduler }: Pick<BatchIsolation, 'scheduler'>): ShellVariables => ({
  ...common,
  in_task: false,
  scheduler,
  job_id: jobId,
  srun_program: scheduler ? '' : srunProgram,
  replaced_commands: replacedCommands,
  step_option_pattern: stepOptionPattern,
  shared_memory_prefix: '/dev/shm/bursar-',
  idle_seconds: 30,
  // A job that starts more steps at the same time waits.
  max_concurrent_steps: 64,
  max_waiting_steps: 1000,
});

/** Builds the batch script of a job on Slurm. */
export function buildSlurmScript(job: EngineJob, isolation: BatchIsolation | null): string {
  if (isolation === null) return buildWrapper(job, isolation);
  return buildWrapper(job, isolation, { program: stepsProgram, variables: stepVariables(job.jobId, isolation) });
}
