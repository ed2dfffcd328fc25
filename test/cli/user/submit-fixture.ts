import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { Context } from '../../../src/cli/user/context.ts';
import { runCommand } from '../../../src/cli/user/execute-command.ts';
import { bursarOfUser, type CommandOutcome } from '../../support/command-line.ts';
import { oldestNode, userProgram } from '../../support/oldest-node.ts';

interface CommandModule<Options> {
  run(context: Context, options: Options): Promise<void>;
}

export interface StartedCommand {
  stdout(): string;
  stderr(): string;
  kill(signal: NodeJS.Signals): void;
  /** The exit code; null if a signal ended the process. */
  ended: Promise<number | null>;
}

/** Folders for the input of jobs, and the command line with the account of a user. */
export interface SubmitFixture {
  /** Creates a folder with these files. */
  folder(files: Record<string, string | Buffer>): string;
  run(...args: string[]): Promise<CommandOutcome>;
  /** Runs a command in this process, with its options. Its output is a pipe. */
  call<Options>(load: () => Promise<CommandModule<Options>>, options: Options): Promise<CommandOutcome>;
  /** Like `run`, for a command that gets signals. */
  start(...args: string[]): StartedCommand;
  env: Record<string, string>;
  dispose(): void;
}

export function createSubmitFixture(url: string, token: string): SubmitFixture {
  const root = mkdtempSync(join(tmpdir(), 'bursar-submit-'));
  const env = { BURSAR_URL: url, BURSAR_TOKEN: token, XDG_CONFIG_HOME: join(root, 'config') };
  let count = 0;
  return {
    folder(files) {
      const path = join(root, `input-${++count}`);
      for (const [name, content] of Object.entries(files)) {
        const file = join(path, name);
        mkdirSync(dirname(file), { recursive: true });
        writeFileSync(file, content);
      }
      return path;
    },
    run: (...args) => bursarOfUser(args, env),
    call: (load, options) => callCommand(load, options, env),
    start: (...args) => startCommand(args, env),
    env,
    dispose: () => rmSync(root, { recursive: true, force: true }),
  };
}

function startCommand(args: string[], env: Record<string, string>): StartedCommand {
  const child = spawn(oldestNode, [userProgram, ...args], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let [stdout, stderr] = ['', ''];
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  return {
    stdout: () => stdout,
    stderr: () => stderr,
    kill: (signal) => void child.kill(signal),
    ended: new Promise((resolve, reject) => child.once('close', resolve).once('error', reject)),
  };
}

async function callCommand<Options>(
  load: () => Promise<CommandModule<Options>>,
  options: Options,
  env: Record<string, string>,
): Promise<CommandOutcome> {
  const output = () => {
    let text = '';
    return {
      read: () => text,
      write(chunk: string | Uint8Array, done?: () => void) {
        text += chunk;
        done?.();
        return true;
      },
      on: () => undefined,
      off: () => undefined,
    };
  };
  const [stdout, stderr] = [output(), output()];
  const { signal } = new AbortController();
  const environment = { env, stdin: Readable.from([]), stdout, stderr, now: Date.now, signal };
  const code = await runCommand(async () => (await load()).run, environment, options as Options & object);
  return { code, stdout: stdout.read(), stderr: stderr.read() };
}
