import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { Readable } from 'node:stream';
import type { Context } from '../../../src/cli/user/context.ts';
import { runCommand } from '../../../src/cli/user/execute-command.ts';
import { createOutput, type ProgramOutcome, type RunningProgram, startProgram } from '../../support/program.ts';

interface CommandModule<Options> {
  run(context: Context, options: Options): Promise<void>;
}

/** Folders for the input of jobs, and the command line with the account of a user. */
export interface SubmitFixture {
  /** Creates a folder with these files. */
  folder(files: Record<string, string | Buffer>): string;
  run(...args: string[]): Promise<ProgramOutcome>;
  /** Runs a command in this process, with its options. Its output is a pipe. */
  call<Options>(load: () => Promise<CommandModule<Options>>, options: Options): Promise<ProgramOutcome>;
  /** Like `run`, for a command that is interrupted. */
  start(...args: string[]): RunningProgram;
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
    run: (...args) => startProgram(args, env).ended,
    call: (load, options) => callCommand(load, options, env),
    start: (...args) => startProgram(args, env),
    env,
    dispose: () => rmSync(root, { recursive: true, force: true }),
  };
}

async function callCommand<Options>(
  load: () => Promise<CommandModule<Options>>,
  options: Options,
  env: Record<string, string>,
): Promise<ProgramOutcome> {
  const [stdout, stderr] = [createOutput(), createOutput()];
  const { signal } = new AbortController();
  const environment = { env, stdin: Readable.from([]), stdout, stderr, now: Date.now, signal };
  const code = await runCommand(async () => (await load()).run, environment, options as Options & object);
  return { code, stdout: stdout.read(), stderr: stderr.read() };
}
