import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { stringify } from 'yaml';
import { databaseEnvironment, dropDatabase, prepareDatabase } from './database.ts';

const program = fileURLToPath(new URL('../../bin/bursar.mjs', import.meta.url));
export const runFile = promisify(execFile);

export interface ServerOptions {
  /** The data folder of an earlier server; a new one otherwise. */
  data?: string;
  /** A configuration to serve, instead of the shipped one. */
  config?: unknown;
  env?: Record<string, string>;
  /** Where its log goes, instead of into memory. */
  logFile?: string;
  /** One of several on the same books. */
  role?: 'all' | 'api' | 'worker';
}

/** A real server: a process of its own, on a free port and a data folder of its own. */
export interface TestServer {
  url: string;
  data: string;
  process: ChildProcess;
  /** Of the first start; empty on a later one. */
  adminToken: string;
  userToken: string;
  stdout(): string;
  stderr(): string;
  /** A token from the command line, for a user who is created where unknown. */
  token(user: string, ...options: string[]): Promise<string>;
  /** Runs the command line on the same data folder. */
  bursar(...args: string[]): Promise<{ stdout: string; stderr: string }>;
  /** SIGTERM; resolves with the exit code. The data folder stays. */
  stop(): Promise<number | null>;
  /** SIGKILL. The data folder stays. */
  kill(): Promise<void>;
  /** Stops it and removes the data folder, and its database. */
  dispose(): Promise<void>;
}

export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const data = options.data ?? mkdtempSync(join(tmpdir(), 'bursar-test-'));
  if (!options.env?.BURSAR_DATABASE_URL) await prepareDatabase(data);
  const own = { BURSAR_DATA: data, BURSAR_PORT: '0', ...databaseEnvironment(data) };
  const env: NodeJS.ProcessEnv = { ...process.env, ...own, ...options.env };
  delete env.BURSAR_CONFIG;
  if (options.config !== undefined) {
    env.BURSAR_CONFIG = `${data}.yaml`;
    writeFileSync(env.BURSAR_CONFIG, stringify(options.config));
  }
  const child = spawn(process.execPath, [program, 'serve', ...(options.role ? ['--role', options.role] : [])], {
    env,
    stdio: ['ignore', 'pipe', options.logFile === undefined ? 'pipe' : openSync(options.logFile, 'a')],
  });
  let stdout = '';
  let stderr = '';
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const exited = once(child, 'exit');

  const log = () => (options.logFile === undefined ? stderr : readFileSync(options.logFile, 'utf8'));
  while (!/serves (http:\S+)[^\n]*\n/.test(stdout)) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server did not start:\n${log()}`);
    await sleep(10);
  }
  // On a first start the tokens follow the first line in the same write.
  const [, url = ''] = /serves (http:\S+)/.exec(stdout) ?? [];
  const tokenOf = (role: string) => new RegExp(`${role} +\\d+: (\\S+)`).exec(stdout)?.[1] ?? '';
  const bursar = (...args: string[]) => runFile(process.execPath, [program, ...args], { env });
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await exited;
    return child.exitCode;
  };
  return {
    url,
    data,
    process: child,
    adminToken: tokenOf('administrator'),
    userToken: tokenOf('user'),
    stdout: () => stdout,
    stderr: log,
    token: async (user, ...more) => (await bursar('token', 'create', '--user', user, ...more)).stdout.trim(),
    bursar,
    stop: () => end('SIGTERM'),
    kill: async () => {
      await end('SIGKILL');
    },
    dispose: async () => {
      await end('SIGTERM');
      // Jobs go on when their server ends, and may still be writing.
      rmSync(data, { recursive: true, force: true, maxRetries: 50, retryDelay: 100 });
      rmSync(`${data}.yaml`, { force: true });
      await dropDatabase(data);
    },
  };
}
