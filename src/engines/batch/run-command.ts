import { BursarError } from '../../domain/errors.ts';
import { loginShell } from '../../shell/base-environment.ts';
import type { RunResult, Shell } from '../../shell/shell.ts';
import type { CommandEnd } from '../definition.ts';
import { readShellProgram, setVariables } from './shell-program.ts';

const cleanEnvironment = readShellProgram('clean-environment.sh', import.meta.url);

/** A command of the scheduler, or a bash script that reads job files on the host where these commands run. */
export interface BatchCommand {
  argv: readonly [string, ...string[]];
  stdin?: string;
  /** Runs first, in the same bash. It ends the bash, with output, if the command must not run. */
  precondition?: { bash: string; args: readonly string[] };
}

export interface CommandOptions {
  shell: Shell;
  commandTimeoutMs: number;
  /** Called with the name of every scheduler command before it runs, to count the load on the scheduler. */
  onCommand(name: string): void;
  /** Called when it has ended, with or without success. */
  onCommandEnd?(end: CommandEnd): void;
  /** Names of the variables of the commands that the operator has configured. Jobs get them too. */
  configuredVariables?: readonly string[];
}

/**
 * The environment variables of a scheduler. Its commands take options from some of them too, where a site may have set some. An
 * option that hides a job from the list would make the job run twice.
 */
export interface CommandVariables {
  submitCommand: string;
  /** Variables that begin with one of these are removed. */
  optionPrefixes: readonly string[];
  /** Those of them that name the cluster, and are kept. */
  contextVariables: readonly string[];
  /** Set for all commands but the submit command. */
  queryVariables: Readonly<Record<string, string>>;
}

/** Runs a command and returns its result, whatever the exit code. Errors are transient: the command may have run. */
export type RunCommand = (command: BatchCommand, signal: AbortSignal) => Promise<RunResult>;

/** Enough for a list of 100,000 jobs. */
const maxOutputBytes = 32 * 1024 * 1024;

/**
 * Jobs inherit the environment of the submit command, in which the start-up files of the account may have set anything: it gets
 * only these variables, and those of the scheduler.
 */
const submitVariables = ['PATH', 'HOME', 'USER', 'LOGNAME', 'SHELL', 'LANG'];

export function createRunCommand(options: CommandOptions, variables: CommandVariables): RunCommand {
  const { shell, commandTimeoutMs, onCommand, onCommandEnd, configuredVariables = [] } = options;
  // Without start-up files bash is not needed, and would take a good part of the time of a command.
  const environments = shell.environment ? toEnvironments(shell.environment, variables, configuredVariables) : null;
  const preludes = buildPreludes(variables, configuredVariables);

  /** The command with the environment that it needs, set by bash or passed to the shell. */
  function prepare({ argv, precondition }: BatchCommand): {
    argv: readonly string[];
    environment?: Record<string, string>;
  } {
    const kind = argv[0] === variables.submitCommand ? 'submit' : 'query';
    if (environments !== null && precondition === undefined) {
      return { argv, environment: environments[kind] };
    }
    const check = precondition === undefined ? '' : `${precondition.bash}\nshift ${precondition.args.length}\n`;
    return { argv: [...bash, `${check}${preludes[kind]}`, 'bursar', ...(precondition?.args ?? []), ...argv] };
  }

  return async (command, signal) => {
    signal.throwIfAborted();
    const { argv, stdin } = command;
    const [name] = argv;
    const isOfScheduler = name !== 'bash';
    if (isOfScheduler) onCommand(name);
    const { argv: prepared, environment } = isOfScheduler ? prepare(command) : { argv };
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
      if (isOfScheduler)
        onCommandEnd?.({ name, startedAt, endedAt: Date.now(), hasFailed: hasFailed && !signal.aborted });
    }
  };
}

/** --norc: if its input is a socket, which Node uses for pipes, bash assumes a remote shell, and would read ~/.bashrc. */
const bash = ['bash', '--norc', '-c'];

/** Bash that runs its arguments with the environment that `toEnvironments` returns. */
function buildPreludes(
  { optionPrefixes, contextVariables, queryVariables }: CommandVariables,
  configured: readonly string[],
) {
  const common = {
    context_variables: contextVariables,
    option_prefixes: optionPrefixes,
    query_variables: Object.entries(queryVariables).map(([name, value]) => `${name}=${value}`),
  };
  const variables = [...submitVariables, ...contextVariables, ...configured];
  return {
    query: setVariables({ ...common, submit_variables: [] }) + cleanEnvironment,
    submit: setVariables({ ...common, submit_variables: variables }) + cleanEnvironment,
  };
}

function toEnvironments(
  environment: Readonly<Record<string, string>>,
  { optionPrefixes, contextVariables, queryVariables }: CommandVariables,
  configured: readonly string[],
) {
  const isKept = (name: string) =>
    contextVariables.includes(name) || !optionPrefixes.some((prefix) => name.startsWith(prefix));
  const kept = Object.entries(environment).filter(([name]) => isKept(name));
  const submitted = new Set([...submitVariables, ...contextVariables, ...configured]);
  return {
    query: { TZ: ':/etc/localtime', ...Object.fromEntries(kept), ...queryVariables },
    submit: { SHELL: loginShell(), ...Object.fromEntries(kept.filter(([name]) => submitted.has(name))) },
  };
}

/** Returns stdout, or throws a transient error if the command failed. */
export function requireOutput(program: string, result: RunResult): string {
  if (result.code === 0) return result.stdout;
  throw unavailableError(program, result);
}

export function unavailableError(program: string, result: RunResult): BursarError {
  const message = `The scheduler is not available at the moment (${program}: ${lastErrorLine(result)})`;
  return new BursarError('unavailable', message, { transient: true });
}

/** Returns the last line of stderr without the program name, or the exit code if stderr is empty. */
export function lastErrorLine({ code, stderr }: RunResult): string {
  const line = stderr.trim().split('\n').at(-1) ?? '';
  const message = line.replace(/^\w+: (error: )?/, '').slice(0, 300);
  return message || (code === null ? 'ended by a signal' : `exit code ${code}`);
}

/** Bursar names the jobs of a scheduler by their job ids. A job with any other name belongs to somebody else, and is never touched. */
export function isJobName(name: string): boolean {
  return /^(?:[A-Z0-9_-]+-)?[0-9A-F]{32}$|^[0-9A-F]{8}(?:-[0-9A-F]{4}){3}-[0-9A-F]{12}$/.test(name);
}
