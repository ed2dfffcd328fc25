import { execFile, type PromiseWithChild, spawn } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { oldestNode, userProgram } from './oldest-node.ts';

export const program = fileURLToPath(new URL('../../bin/bursar.mjs', import.meta.url));

export const runFile = promisify(execFile);

/** The result of a command that ends with 0, and its process until then. */
export type RunningCommand = PromiseWithChild<{ stdout: string; stderr: string }>;

/** Runs the command line in the given environment. Throws if the exit code is not 0. */
export function runBursar(args: string[], env: NodeJS.ProcessEnv): RunningCommand {
  return runFile(process.execPath, [program, ...args], { env });
}

export interface CommandOutcome {
  /** Null if the command was killed after five minutes. */
  code: number | null;
  stdout: string;
  stderr: string;
}

/**
 * Runs the command line as a process, with another program such as setpriv before it, and returns its exit code and output.
 * BURSAR_ variables are not inherited. `bursar` of program.ts needs no process.
 */
export function bursarProcess(
  args: string[],
  settings: Record<string, string> = {},
  prefix: readonly string[] = [],
): Promise<CommandOutcome> {
  return runToEnd([...prefix, process.execPath, program, ...args], settings);
}

/** Runs a users' command as users do: by the file that the server offers, on the oldest Node that it supports. */
export function bursarOfUser(args: string[], settings: Record<string, string> = {}): Promise<CommandOutcome> {
  return runToEnd([oldestNode, userProgram, ...args], settings);
}

async function runToEnd([command = '', ...args]: string[], settings: Record<string, string>): Promise<CommandOutcome> {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('BURSAR_'));
  const child = spawn(command, args, {
    env: { ...Object.fromEntries(inherited), ...settings },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 300_000,
    killSignal: 'SIGKILL',
  });
  const ended = new Promise<number | null>((resolve, reject) => child.once('close', resolve).once('error', reject));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  return { code, stdout, stderr };
}
