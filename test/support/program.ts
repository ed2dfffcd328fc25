import { EventEmitter } from 'node:events';
import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import type { Host } from '../../src/cli/host.ts';
import type { UseDatabase } from '../../src/cli/operator/operator.ts';
import { runCommandLine } from '../../src/cli/program.ts';
import { findOpenDatabase } from './database.ts';
import { until } from './until.ts';

// The command line in the process of the test: a process of its own takes 150 ms and more of CPU time for each command.

export interface ProgramOutcome {
  code: number;
  stdout: string;
  stderr: string;
}

export interface RunningProgram {
  stdout(): string;
  stderr(): string;
  /** Waits until standard output has this text. */
  waitFor(text: string): Promise<void>;
  /** Does what Ctrl-C does. */
  interrupt(): void;
  ended: Promise<ProgramOutcome>;
}

interface ProgramOptions {
  /** Whether standard output and standard error are terminals of 120 columns. Default: pipes. */
  isTTY?: boolean;
  stdin?: string;
}

/** Runs a command with these variables only. */
export function runProgram(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  options?: ProgramOptions,
): Promise<ProgramOutcome> {
  return startProgram(args, env, options).ended;
}

/** Like `runProgram`. Throws, as `execFile` does, if the exit code is not 0. */
export async function runSuccessfully(args: readonly string[], env: NodeJS.ProcessEnv): Promise<ProgramOutcome> {
  const outcome = await runProgram(args, env);
  if (outcome.code === 0) return outcome;
  throw Object.assign(new Error(`bursar ${args.join(' ')} failed:\n${outcome.stderr}`), outcome);
}

/** Runs an operators' command. BURSAR_ variables are not inherited. */
export function bursar(args: readonly string[], settings: Record<string, string> = {}): Promise<ProgramOutcome> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BURSAR_'));
  return runProgram(args, { ...Object.fromEntries(inherited), ...settings });
}

export function startProgram(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { isTTY = false, stdin = '' }: ProgramOptions = {},
): RunningProgram {
  const [stdout, stderr] = [createOutput(isTTY), createOutput(isTTY)];
  const signals = new EventEmitter();
  const host: Host = {
    argv: ['node', 'bursar', ...args],
    env,
    stdin: Readable.from(stdin === '' ? [] : [stdin]),
    stdout,
    stderr,
    exitCode: 0,
    exit: (code) => {
      throw new Error(`the program exits with ${code} at once`);
    },
    // It would apply to the whole process of the test.
    umask: () => undefined,
    on: (event, listener) => signals.on(event, listener),
    off: (event, listener) => signals.off(event, listener),
  };
  return {
    stdout: stdout.read,
    stderr: stderr.read,
    waitFor: (text) =>
      until(`output "${text}"`, () => (stdout.read().includes(text) ? true : undefined)).then(() => {}),
    interrupt: () => signals.emit('SIGINT'),
    ended: runCommandLine(host, useDatabase).then(() => ({
      code: Number(host.exitCode),
      stdout: stdout.read(),
      stderr: stderr.read(),
    })),
  };
}

/** The database of a server in this process, if it has this data folder. */
const useDatabase: UseDatabase = async (config, use) => {
  const open = findOpenDatabase(resolve(config.data));
  if (open !== undefined) return await use(open);
  const { withDatabase } = await import('../../src/cli/operator/with-database.ts');
  return await withDatabase(config, use);
};

/** Collects what a command writes. */
export function createOutput(isTTY = false) {
  let text = '';
  return {
    read: () => text,
    write(chunk: string | Uint8Array, done?: () => void) {
      text += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString('latin1');
      done?.();
      return true;
    },
    isTTY,
    columns: 120,
    rows: 40,
    on: () => undefined,
    off: () => undefined,
  };
}
