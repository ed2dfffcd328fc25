import type { BatchIsolation } from '../batch/backend.ts';
import { readShellProgram, type ShellVariables, setVariables } from '../batch/shell-program.ts';
import { buildWrapper } from '../batch/wrapper.ts';
import type { EngineJob } from '../engine.ts';

type OptionTable = Readonly<Record<string, { short?: string; value?: 'required' | 'optional' }>>;

/**
 * The options of `srun` that an isolated job can use, by exact name: they choose among the resources that the job already
 * has. The wrapper passes no other option to Slurm's `srun`, because some of them run programs, or read and write files,
 * outside the isolation (such as `--task-prolog`, `--bcast`, `--output`). `value`: whether the option has a value.
 */
export const stepOptions: OptionTable = {
  'cores-per-socket': { value: 'required' },
  'cpu-bind': { value: 'required' },
  'cpus-per-task': { short: 'c', value: 'required' },
  'disable-status': { short: 'X' },
  distribution: { short: 'm', value: 'required' },
  exact: {},
  exclude: { short: 'x', value: 'required' },
  exclusive: {},
  'gpu-bind': { value: 'required' },
  gpus: { short: 'G', value: 'required' },
  'gpus-per-node': { value: 'required' },
  'gpus-per-task': { value: 'required' },
  gres: { value: 'required' },
  hint: { value: 'required' },
  'job-name': { short: 'J', value: 'required' },
  'kill-on-bad-exit': { short: 'K', value: 'optional' },
  label: { short: 'l' },
  mem: { value: 'required' },
  'mem-bind': { value: 'required' },
  'mem-per-cpu': { value: 'required' },
  mpi: { value: 'required' },
  nodelist: { short: 'w', value: 'required' },
  nodes: { short: 'N', value: 'required' },
  ntasks: { short: 'n', value: 'required' },
  'ntasks-per-core': { value: 'required' },
  'ntasks-per-gpu': { value: 'required' },
  'ntasks-per-node': { value: 'required' },
  'ntasks-per-socket': { value: 'required' },
  overcommit: { short: 'O' },
  overlap: {},
  quiet: { short: 'Q' },
  relative: { short: 'r', value: 'required' },
  'resv-ports': { value: 'optional' },
  'sockets-per-node': { value: 'required' },
  threads: { short: 'T', value: 'required' },
  'threads-per-core': { value: 'required' },
  time: { short: 't', value: 'required' },
  unbuffered: { short: 'u' },
  verbose: { short: 'v' },
  version: { short: 'V' },
  wait: { short: 'W', value: 'required' },
};

/** Options that the `srun` inside the isolation carries out itself: they concern files and variables of the job. */
export const ownOptions: OptionTable = {
  chdir: { short: 'D', value: 'required' },
  error: { short: 'e', value: 'required' },
  export: { value: 'required' },
  input: { short: 'i', value: 'required' },
  output: { short: 'o', value: 'required' },
};

/** The names of the options with that kind of value, separated by `|`. */
function optionPattern(options: OptionTable, value?: 'required' | 'optional'): string {
  return Object.keys(options)
    .filter((name) => options[name]?.value === value)
    .join('|');
}

/** No value can name a file: to Slurm, a node list that contains a slash is one. */
const valuePattern = '=[][A-Za-z0-9_.,:;+*=()-]+';

/** Matches an option for Slurm's `srun` in its long form: a regular expression of bash. */
export const stepOptionPattern = `^--((${optionPattern(stepOptions)})|(${optionPattern(stepOptions, 'required')})${valuePattern}|(${optionPattern(stepOptions, 'optional')})(${valuePattern})?)$`;

export const stepsProgram = readShellProgram('steps.sh', import.meta.url);

/** Slurm's commands that are replaced inside the isolation. All of them but `srun` only say that they are not available. */
export const replacedCommands = 'srun sbatch salloc sattach sbcast scancel squeue sinfo scontrol sacct'.split(' ');

/** The folder inside the isolation that holds the FIFOs of `srun`. */
export const requestFolder = '/run/bursar';

/** Variables of both ends of a request. */
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
