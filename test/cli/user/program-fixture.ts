import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type ProgramOutcome, type RunningProgram, startProgram } from '../../support/program.ts';

/** The users' command line in the process of the test. */
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
  const run = (...args: string[]) => startProgram(args, env).ended;
  return {
    run,
    onTerminal: (...args) => startProgram(args, env, { isTTY: true }).ended,
    async json(...args) {
      const { code, stdout, stderr } = await run(...args, '--json');
      assert.equal(code, 0, stderr);
      return JSON.parse(stdout);
    },
    start: (...args) => startProgram(args, env),
    folder,
    env,
    dispose: () => rmSync(folder, { recursive: true, force: true }),
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
