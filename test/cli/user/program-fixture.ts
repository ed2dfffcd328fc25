import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { CommanderError } from 'commander';
import { createProgram } from '../../../src/cli/run-program.ts';
import { addUserCommands } from '../../../src/cli/user/commands.ts';
import { setHost } from '../../../src/cli/user/run-command.ts';
import { until } from '../../support/until.ts';

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

/** The users' command line in the process of the test: a process of its own takes 150 ms and more for each command. */
export interface ProgramFixture {
  /** Runs a command line. Its output is a pipe. */
  run(...args: string[]): Promise<ProgramOutcome>;
  /** Runs a command line whose output is a terminal of 120 columns. */
  onTerminal(...args: string[]): Promise<ProgramOutcome>;
  /** Like `run` with --json. Returns the parsed output, and throws if the exit code is not 0. */
  json<T = unknown>(...args: string[]): Promise<T>;
  start(...args: string[]): RunningProgram;
  /** For files that a command writes. */
  folder: string;
  env: Record<string, string>;
  dispose(): void;
}

export function createProgramFixture(url: string, token: string): ProgramFixture {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-program-'));
  const env = {
    BURSAR_URL: url,
    BURSAR_TOKEN: token,
    HOME: folder,
    XDG_CONFIG_HOME: join(folder, 'config'),
    XDG_CACHE_HOME: join(folder, 'cache'),
  };
  const run = (...args: string[]) => startProgram(args, env, false).ended;
  return {
    run,
    onTerminal: (...args) => startProgram(args, env, true).ended,
    async json(...args) {
      const { code, stdout, stderr } = await run(...args, '--json');
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    },
    start: (...args) => startProgram(args, env, false),
    folder,
    env,
    dispose: () => rmSync(folder, { recursive: true, force: true }),
  };
}

function startProgram(args: string[], env: Record<string, string>, isTTY: boolean): RunningProgram {
  const [stdout, stderr] = [createOutput(isTTY), createOutput(isTTY)];
  const interruption = new AbortController();
  const { signal } = interruption;
  let code = 0;
  const program = createProgram('test').configureOutput({ writeOut: stdout.write, writeErr: stderr.write });
  addUserCommands(program);
  setHost(program, async (run) => {
    code = await run({ env, stdin: Readable.from([]), stdout, stderr, now: Date.now, signal });
  });
  const parsed = program.parseAsync(args, { from: 'user' }).catch((error: unknown) => {
    if (!(error instanceof CommanderError)) throw error;
    code = error.exitCode === 0 ? 0 : 2;
  });
  return {
    stdout: stdout.read,
    stderr: stderr.read,
    waitFor: (text) =>
      until(`output "${text}"`, () => (stdout.read().includes(text) ? true : undefined)).then(() => {}),
    interrupt: () => interruption.abort(),
    ended: parsed.then(() => ({ code, stdout: stdout.read(), stderr: stderr.read() })),
  };
}

function createOutput(isTTY: boolean) {
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

/** The names of the columns and the cells of a table in a pipe. */
export function parseTable(text: string): Record<string, string>[] {
  const [titles = [], ...rows] = text
    .trimEnd()
    .split('\n')
    .map((line) => line.split('\t'));
  return rows.map((cells) => Object.fromEntries(titles.map((title, index) => [title, cells[index] ?? ''])));
}
