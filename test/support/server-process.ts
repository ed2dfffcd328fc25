import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { openSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { program } from './command-line.ts';
import { prepareDataFolder, removeDataFolder } from './data-folder.ts';
import { withDatabase } from './database.ts';
import { checkLog, findTestFile } from './log-secrets.ts';
import { runSuccessfully } from './program.ts';
import { firstUsers, type ServerOptions, type TestServer } from './server.ts';
import { createToken } from './tokens.ts';

export interface ServerProcessOptions extends ServerOptions {
  env?: Record<string, string>;
  /** A file for the log. Default: memory. */
  logFile?: string;
  /** For several servers on one database. */
  role?: 'all' | 'api' | 'worker';
}

/** A server in its own process. */
export interface ServerProcess extends TestServer {
  process: ChildProcess;
  stdout(): string;
  /** SIGTERM. Resolves with the exit code. The data folder stays. */
  stop(): Promise<number | null>;
  /** SIGKILL. The data folder stays. */
  kill(): Promise<void>;
}

const tunedServer = fileURLToPath(new URL('./tuned-server.ts', import.meta.url));

/** The arguments of Node in `npm start`, with the full path of the program. */
function startArguments(path: string): string[] {
  const packageFile = new URL('../../package.json', import.meta.url);
  const { scripts } = JSON.parse(readFileSync(packageFile, 'utf8')) as { scripts: { start: string } };
  const [, nodeArguments = ''] = /^exec node (.*)/.exec(scripts.start) ?? [];
  return nodeArguments.split(' ').map((argument) => (argument === 'bin/bursar.mjs' ? path : argument));
}

/** Runs `bursar serve` as a process, with the same options as `npm start`. `startServer` is faster, for tests that do not need the process. */
export async function spawnServer(options: ServerProcessOptions = {}): Promise<ServerProcess> {
  const databaseUrl = options.env?.BURSAR_DATABASE_URL;
  const { data, environment } = await prepareDataFolder({
    ...options,
    ...(databaseUrl === undefined ? {} : { databaseUrl }),
  });
  const { tuning } = options;
  const env = { ...environment, ...options.env, ...(tuning ? { BURSAR_TEST_TUNING: JSON.stringify(tuning) } : {}) };
  const nodeArguments = startArguments(tuning ? tunedServer : program);
  const child = spawn(process.execPath, [...nodeArguments, ...(options.role ? ['--role', options.role] : [])], {
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
  const testFile = findTestFile();
  // When the process has ended and all its output was read. A log file is complete at the exit, and may be removed after it.
  child.once(options.logFile === undefined ? 'close' : 'exit', () => checkLog(log(), testFile));

  const log = () => (options.logFile === undefined ? stderr : readFileSync(options.logFile, 'utf8'));
  while (!/serves (https?:\S+)[^\n]*\n/.test(stdout)) {
    if (child.exitCode !== null || child.signalCode !== null) throw new Error(`the server did not start:\n${log()}`);
    await sleep(10);
  }
  // On a first start the tokens, or that there are no users, follow the first line in the same write.
  const [, url = ''] = /serves (https?:\S+)/.exec(stdout) ?? [];
  const hasNoUsers = /There are no users yet/.test(stdout);
  const token: TestServer['token'] = (user, tokenOptions) =>
    withDatabase(data, (db) => createToken(db, user, tokenOptions), databaseUrl);
  const firstToken = async (role: string, user: string, admin: boolean) =>
    hasNoUsers ? await token(user, { admin }) : (new RegExp(`${role} +\\d+: (\\S+)`).exec(stdout)?.[1] ?? '');
  const adminToken = await firstToken('administrator', firstUsers.admin, true);
  const userToken = await firstToken('user', firstUsers.user, false);
  const end = async (signal: NodeJS.Signals) => {
    if (child.exitCode === null && child.signalCode === null) child.kill(signal);
    await exited;
    return child.exitCode;
  };
  return {
    url,
    data,
    process: child,
    adminToken,
    userToken,
    stdout: () => stdout,
    log,
    token,
    environment: env,
    bursar: (...args) => runSuccessfully(args, env),
    stop: () => end('SIGTERM'),
    kill: async () => {
      await end('SIGKILL');
    },
    dispose: async () => {
      await end('SIGTERM');
      await removeDataFolder(data);
    },
  };
}
