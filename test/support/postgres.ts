import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chownSync, existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePorts } from './ports.ts';

const user = 'bursar';
const password = 'a pass:word/';

/** A real PostgreSQL server on a loopback port, with its own folder. */
export interface TestPostgres {
  folder: string;
  port: number;
  /** Creates the database if it does not exist, and returns its URL. */
  database(name: string): Promise<string>;
  url(name: string): string;
  query<Row>(name: string, text: string, values?: unknown[]): Promise<Row[]>;
  process(): ChildProcess;
  /** Stops the server as an operator does. All connections are closed. */
  stop(signal?: 'SIGINT' | 'SIGQUIT'): Promise<void>;
  /** Starts the server again, with the same databases and port. */
  start(): Promise<void>;
  /** Stops the server and removes its folder. */
  close(): Promise<void>;
}

export interface PostgresOptions {
  /** Whether commits survive a power failure. Default: no, which is faster. */
  durable?: boolean;
  /** Lines for postgresql.conf. */
  settings?: string[];
  /** Files to create in the server's folder, readable only for the server. */
  files?: Record<string, string>;
}

export async function startPostgres(options: PostgresOptions = {}): Promise<TestPostgres> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-postgres-'));
  const data = join(folder, 'data');
  const secret = join(folder, 'password');
  const [port = 0] = await freePorts(1);
  writeFileSync(secret, password);
  for (const path of [folder, secret]) chownToPostgres(path);
  const auth = ['--auth-local=trust', '--auth-host=scram-sha-256', `--pwfile=${secret}`];
  runAsPostgres('initdb', ['-D', data, '-U', user, '--no-sync', '--encoding=UTF8', '--locale=C.UTF-8', ...auth]);
  for (const [name, text] of Object.entries(options.files ?? {})) {
    writeFileSync(join(folder, name), text, { mode: 0o600 });
    chownToPostgres(join(folder, name));
  }
  const settings = [
    `port = ${port}`,
    "listen_addresses = '127.0.0.1'",
    `unix_socket_directories = '${folder}'`,
    'max_connections = 300',
    // Compiling a query takes longer than running it on the few rows of a test.
    ...(options.durable ? [] : ['fsync = off', 'synchronous_commit = off', 'full_page_writes = off', 'jit = off']),
    ...(options.settings ?? []),
  ];
  const file = join(data, 'postgresql.conf');
  writeFileSync(file, `${settings.join('\n')}\n`);
  chownToPostgres(file);

  let server: ChildProcess | undefined;
  const url = (name: string) =>
    `postgres://${user}:${encodeURIComponent(password)}@127.0.0.1:${port}/${encodeURIComponent(name)}`;

  async function query<Row>(name: string, text: string, values: unknown[] = []): Promise<Row[]> {
    const client = new pg.Client({ connectionString: url(name) });
    await client.connect();
    try {
      return (await client.query(text, values)).rows as Row[];
    } finally {
      await client.end();
    }
  }
  async function start(): Promise<void> {
    const [program, ...args] = asUser('postgres', ['-D', data]);
    server = spawn(program, args, { stdio: ['ignore', 'ignore', 'pipe'], cwd: folder });
    let log = '';
    server.stderr?.setEncoding('utf8').on('data', (text: string) => {
      log += text;
    });
    while (!(await query('postgres', 'select 1').catch(() => null))) {
      if (server.exitCode !== null) throw new Error(`PostgreSQL did not start:\n${log}`);
      await sleep(50);
    }
  }
  async function stop(signal: 'SIGINT' | 'SIGQUIT' = 'SIGINT'): Promise<void> {
    if (server === undefined || server.exitCode !== null || server.signalCode !== null) return;
    const ended = once(server, 'exit');
    // setpriv has replaced itself with PostgreSQL, so this is the process id of PostgreSQL.
    server.kill(signal);
    await ended;
  }
  await start();
  return {
    folder,
    port,
    url,
    query,
    start,
    stop,
    process: () => server as ChildProcess,
    async database(name) {
      const [existing] = await query('postgres', 'select 1 from pg_database where datname = $1', [name]);
      if (existing === undefined) await query('postgres', `create database "${name}"`);
      return url(name);
    },
    async close() {
      await stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** PostgreSQL does not run as root. As root, runs it as the user postgres, which its package has created. */
function asUser(program: string, args: string[]): [string, ...string[]] {
  const path = join(programFolder(), program);
  if (process.getuid?.() !== 0) return [path, ...args];
  return ['setpriv', '--reuid=postgres', '--regid=postgres', '--clear-groups', path, ...args];
}

function runAsPostgres(program: string, args: string[]): void {
  const [command, ...rest] = asUser(program, args);
  execFileSync(command, rest, { stdio: ['ignore', 'ignore', 'inherit'], cwd: tmpdir() });
}

/** Lets PostgreSQL use a file or folder. */
export function chownToPostgres(path: string): void {
  if (process.getuid?.() !== 0) return;
  const id = (flag: string) => Number(execFileSync('id', [flag, 'postgres'], { encoding: 'utf8' }));
  chownSync(path, id('-u'), id('-g'));
}

/** On Debian, each version has its own folder, which is not in PATH. */
function programFolder(): string {
  const root = '/usr/lib/postgresql';
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : [];
  const folders = [...versions.map((version) => join(root, version, 'bin')), ...(process.env.PATH ?? '').split(':')];
  const found = folders.find((folder) => existsSync(join(folder, 'initdb')));
  if (found === undefined) throw new Error('PostgreSQL is not installed (apt-get install postgresql)');
  return found;
}
