type OptionTable = Readonly<Record<string, { short?: string; value?: 'required' | 'optional' }>>;

/**
 * The options of `srun` that an isolated job can use, by exact name: they choose among the resources that the job already
 * has. The wrapper passes no other option to Slurm's `srun`, because some of them run programs, or read and write files,
 * outside of the isolation (such as `--task-prolog`, `--bcast`, `--output`). `value`: whether the option has a value.
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

/** Options that the `srun` inside of the isolation carries out itself: they concern files and variables of the job. */
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

/** No value can name a file: Slurm takes a node list that contains a slash for one. */
const valuePattern = '=[][A-Za-z0-9_.,:;+*=()-]+';

/** Matches an option for Slurm's `srun` in its long form: a regular expression of bash. */
export const stepOptionPattern = `^--((${optionPattern(stepOptions)})|(${optionPattern(stepOptions, 'required')})${valuePattern}|(${optionPattern(stepOptions, 'optional')})(${valuePattern})?)$`;
