import { BursarError } from '../../domain/errors.ts';
import type { RunResult, Shell } from '../../shell/shell.ts';

/** A command of Slurm, or one that looks at the files of jobs where Slurm's commands run. */
export interface SlurmCommand {
  argv: readonly [string, ...string[]];
  stdin?: string;
}

export interface CommandOptions {
  shell: Shell;
  commandTimeoutMs: number;
  /** Told of every command of Slurm that is run, by its name; to count what the scheduler has to do. */
  onCommand(name: string): void;
}

/** Runs a command to its end, whatever that is. What throws is transient: nobody knows whether it did its work. */
export type RunCommand = (command: SlurmCommand, signal: AbortSignal) => Promise<RunResult>;

/** Enough for 100,000 jobs; beyond that something is wrong. */
const maxOutputBytes = 32 * 1024 * 1024;

/**
 * Options of Slurm's commands also come from the environment, where a site may have set some. One of them that hides
 * a job would make it run twice, so that only what is in the argv counts. Times are asked for as seconds since 1970:
 * Slurm prints local ones, without the zone. The zone is named, though it is the usual one: where it is not, the C library
 * looks at its file again for each time that it prints, a fifth of the time that squeue takes for thousands of jobs.
 */
const clean = [
  'conf=$' + '{SLURM_CONF-}',
  ...['SBATCH', 'SQUEUE', 'SCANCEL', 'SCONTROL', 'SACCT', 'SLURM'].map((name) => `unset $\{!${name}_@}`),
  '[ -z "$conf" ] || export SLURM_CONF="$conf"',
  'umask 077',
].join('; ');
const zone = 'export TZ="$' + '{TZ-:/etc/localtime}"';
const forReading = `${clean}; ${zone}; export SLURM_TIME_FORMAT=%s; exec "$@"`;
/** Without the zone and the format of times, which the job would inherit. */
const forSubmitting = `${clean}; exec "$@"`;

export function createRunCommand({ shell, commandTimeoutMs, onCommand }: CommandOptions): RunCommand {
  return async ({ argv, stdin }, signal) => {
    signal.throwIfAborted();
    const [program] = argv;
    if (program !== 'bash') onCommand(program);
    const prelude = program === 'sbatch' ? forSubmitting : forReading;
    // --norc: a bash whose input is a socket, as Node's pipes are, takes itself for a remote shell and reads ~/.bashrc.
    return await shell.run(['bash', '--norc', '-c', prelude, 'bursar', ...argv], {
      signal,
      timeoutMs: commandTimeoutMs,
      maxOutputBytes,
      ...(stdin === undefined ? {} : { stdin }),
    });
  };
}

/** The output of a command that worked. */
export function outputOf(program: string, result: RunResult): string {
  if (result.code === 0) return result.stdout;
  throw unavailable(program, result);
}

export function unavailable(program: string, result: RunResult): BursarError {
  const message = `Slurm does not answer just now (${program}: ${lastWords(result)})`;
  return new BursarError('unavailable', message, { transient: true });
}

/** What the command said last, in one line and without its name in front. */
export function lastWords({ code, stderr }: RunResult): string {
  const last = stderr.trim().split('\n').at(-1) ?? '';
  const words = last.replace(/^\w+: (error: )?/, '').slice(0, 300);
  return words || (code === null ? 'ended by a signal' : `exit code ${code}`);
}

/** Parts of a list, so that no command line grows beyond what the system takes. */
export function chunked<T>(items: readonly T[], size = 500): T[][] {
  const parts: T[][] = [];
  for (let start = 0; start < items.length; start += size) parts.push(items.slice(start, start + size));
  return parts;
}

/** Job ids are the names of Bursar's jobs in Slurm. What looks otherwise is somebody else's, and never touched. */
export function isJobName(name: string): boolean {
  return /^(?:[A-Z0-9_-]+-)?[0-9A-F]{32}$|^[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}$/.test(name);
}
