import { BursarError } from '../../domain/errors.ts';
import { loginShell } from '../../shell/base-environment.ts';
import type { RunResult, Shell } from '../../shell/shell.ts';

/** A Slurm command, or a bash script that reads job files on the host where Slurm's commands run. */
export interface SlurmCommand {
  argv: readonly [string, ...string[]];
  stdin?: string;
  /** Runs first, in the same bash. It ends the bash, with output, if the command must not run. */
  precondition?: { bash: string; args: readonly string[] };
}

export interface CommandOptions {
  shell: Shell;
  commandTimeoutMs: number;
  /** Called with the name of every Slurm command before it runs, to count the load on the scheduler. */
  onCommand(name: string): void;
  /** Called when it has ended, with or without success. */
  onCommandEnd?(end: { name: string; startedAt: number; endedAt: number; hasFailed: boolean }): void;
  /** Names of the variables of the Slurm commands that the operator has configured. Jobs get them too. */
  configuredVariables?: readonly string[];
}

/** Runs a command and returns its result, whatever the exit code. Errors are transient: the command may have run. */
export type RunCommand = (command: SlurmCommand, signal: AbortSignal) => Promise<RunResult>;

/** Enough for 100,000 jobs in squeue. */
const maxOutputBytes = 32 * 1024 * 1024;

const slurmPrefixes = ['SBATCH', 'SQUEUE', 'SCANCEL', 'SCONTROL', 'SACCT', 'SLURM'];
/**
 * Slurm's commands also take options from the environment, where a site may have set some. An option that hides a job
 * from squeue would make the job run twice.
 */
const removeSlurmVariables = [
  `conf=$\{SLURM_CONF-}`,
  ...slurmPrefixes.map((name) => `unset $\{!${name}_@}`),
  '[ -z "$conf" ] || export SLURM_CONF="$conf"',
  'umask 077',
].join('; ');
/** Without TZ the C library checks /etc/localtime for each time it formats: a fifth of squeue's time for thousands of jobs. */
const setTimeZone = 'export TZ="$' + '{TZ-:/etc/localtime}"';
/** By default Slurm prints local times without a zone; `%s` prints seconds since 1970. */
const queryPrelude = `${removeSlurmVariables}; ${setTimeZone}; export SLURM_TIME_FORMAT=%s; exec "$@"`;
/**
 * A job inherits the environment of sbatch, in which the start-up files of the account may have set anything: sbatch gets only
 * these variables. `--export=NIL` is no substitute: Slurm 22.05 takes it for the name of a variable, and then runs the start-up
 * files of the account on the node.
 */
const submitVariables = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG', 'SLURM_CONF'];
const submitPrelude = (configuredVariables: readonly string[]) =>
  [
    removeSlurmVariables,
    'environment=()',
    `for name in ${[...submitVariables, ...configuredVariables].join(' ')}`,
    'do [ -z "$' + '{!name+set}" ] || environment+=("$name=$' + '{!name}")',
    'done',
    'exec env -i "$' + '{environment[@]}" "$@"',
  ].join('; ');

export function createRunCommand(options: CommandOptions): RunCommand {
  const { shell, commandTimeoutMs, onCommand, onCommandEnd, configuredVariables = [] } = options;
  // Without start-up files bash is not needed, and would take a good part of the time of a Slurm command.
  const environments = shell.environment ? toSlurmEnvironments(shell.environment, configuredVariables) : null;

  /** The command with the environment that a Slurm command needs, set by bash or passed to the shell. */
  function prepare({ argv, precondition }: SlurmCommand): {
    argv: readonly string[];
    environment?: Record<string, string>;
  } {
    const isSubmission = argv[0] === 'sbatch';
    if (environments !== null && precondition === undefined) {
      return { argv, environment: isSubmission ? environments.submit : environments.query };
    }
    const check = precondition === undefined ? '' : `${precondition.bash}\nshift ${precondition.args.length}\n`;
    const prelude = isSubmission ? submitPrelude(configuredVariables) : queryPrelude;
    return { argv: [...bash, `${check}${prelude}`, 'bursar', ...(precondition?.args ?? []), ...argv] };
  }

  return async (command, signal) => {
    signal.throwIfAborted();
    const { argv, stdin } = command;
    const [name] = argv;
    const isSlurm = name !== 'bash';
    if (isSlurm) onCommand(name);
    const { argv: prepared, environment } = isSlurm ? prepare(command) : { argv };
    const startedAt = Date.now();
    let hasFailed = true;
    try {
      const result = await shell.run(prepared, {
        signal,
        timeoutMs: commandTimeoutMs,
        maxOutputBytes,
        ...(stdin === undefined ? {} : { stdin }),
        ...(environment === undefined ? {} : { environment }),
      });
      hasFailed = result.code !== 0;
      return result;
    } finally {
      // A command that the caller aborted says nothing about the scheduler.
      if (isSlurm) onCommandEnd?.({ name, startedAt, endedAt: Date.now(), hasFailed: hasFailed && !signal.aborted });
    }
  };
}

/** --norc: bash takes a socket on stdin, which Node uses for pipes, for a remote shell, and would read ~/.bashrc. */
const bash = ['bash', '--norc', '-c'];

/** Does what `queryPrelude` and `submitPrelude` do. */
function toSlurmEnvironments(environment: Readonly<Record<string, string>>, configuredVariables: readonly string[]) {
  const isKept = (name: string) =>
    name === 'SLURM_CONF' || !slurmPrefixes.some((prefix) => name.startsWith(`${prefix}_`));
  const kept = Object.entries(environment).filter(([name]) => isKept(name));
  const submitted = new Set([...submitVariables, ...configuredVariables]);
  return {
    query: { TZ: ':/etc/localtime', ...Object.fromEntries(kept), SLURM_TIME_FORMAT: '%s' },
    submit: { SHELL: loginShell(), ...Object.fromEntries(kept.filter(([name]) => submitted.has(name))) },
  };
}

/** Returns stdout, or throws a transient error if the command failed. */
export function requireOutput(program: string, result: RunResult): string {
  if (result.code === 0) return result.stdout;
  throw slurmUnavailableError(program, result);
}

/** For scancel and release: throws a transient error unless every failure is about a finished or unknown job. */
export function requireSuccessUnlessFinished(program: string, result: RunResult): void {
  if (result.code === 0) return;
  const isFinished = (line: string) => /already complet|already finished|invalid job id/i.test(line);
  const isHarmless = result.code !== null && result.stderr.trim().split('\n').every(isFinished);
  if (!isHarmless) throw slurmUnavailableError(program, result);
}

export function slurmUnavailableError(program: string, result: RunResult): BursarError {
  const message = `Slurm is not available at the moment (${program}: ${lastErrorLine(result)})`;
  return new BursarError('unavailable', message, { transient: true });
}

/** Returns the last line of stderr without the program name, or the exit code if stderr is empty. */
export function lastErrorLine({ code, stderr }: RunResult): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  const message = line.replace(/^\w+: (error: )?/, '').slice(0, 300);
  return message || (code === null ? 'ended by a signal' : `exit code ${code}`);
}

/** Bursar names its Slurm jobs by their job ids. A job with any other name belongs to somebody else, and is never touched. */
export function isJobName(name: string): boolean {
  return /^(?:[A-Z0-9_-]+-)?[0-9A-F]{32}$|^[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}$/.test(name);
}
