import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { connectDatabase } from '../src/store/database/database.ts';
import { type ServerProcess, type ServerProcessOptions, spawnServer } from '../test/support/server-process.ts';
import { shippedConfig } from '../test/support/shipped-config.ts';
import type { Bench } from './benchmark.ts';
import type { FilledUser } from './fill/enrolments.ts';
import { type FillOptions, fillDatabase } from './fill.ts';
import { pinToCpu, serverCpu } from './processes.ts';
import { type StoredJob, seedJobs } from './seed.ts';

/** High enough never to apply: the benchmarks measure the server's capacity, not its rate limits. */
const limits = {
  ...{ userRequests: 1e9, addressRequests: 1e9, uploads: 1e6 },
  ...{ unfinishedJobs: 1e9, projectUnfinishedJobs: 1e9 },
};
const grant = { timeSeconds: 1e10, spaceKb: 1e10 };

/** The ordinary user whose token is printed at the first start. */
export const readerId = '301330';

export interface BenchServer extends ServerProcess {
  pid: number | undefined;
  /** The authorization header of the reader. */
  auth: Record<string, string>;
  /** Path of the SQLite database. */
  databaseFile: string;
}

export interface BenchServerOptions extends ServerProcessOptions {
  /** Whether the server runs on the same CPU as the baselines, with all its commands; default true. */
  isPinned?: boolean;
}

/** Starts a real server with its own data folder. It logs to a file. */
export async function startBursar(bench: Bench, options: BenchServerOptions = {}): Promise<BenchServer> {
  const data = options.data ?? mkdtempSync(join(tmpdir(), 'bursar-bench-'));
  const config = { limits, ...(options.config ?? unlimitedConfig()) };
  const profiling = bench.profileFolder && {
    NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${resolve(bench.profileFolder)}`,
  };
  const env = { ...options.env, ...profiling };
  const server = await spawnServer({ ...options, env, data, config, logFile: join(data, 'server.log') });
  bench.defer(server.dispose);
  if (options.isPinned ?? true) pinToCpu(server.process.pid, serverCpu);
  const auth = { authorization: `Bearer ${server.userToken}` };
  return { ...server, pid: server.process.pid, auth, databaseFile: join(data, 'bursar.db') };
}

/** Starts a server whose reader owns `jobs` jobs. */
export async function startWithJobs(bench: Bench, jobs: number): Promise<{ bursar: BenchServer; jobs: StoredJob[] }> {
  const bursar = await startBursar(bench);
  return { bursar, jobs: seedJobs(bursar.databaseFile, { jobs, ownerOf: () => readerId }) };
}

/** Starts a server on a SQLite database that was filled before. */
export async function startFilled(bench: Bench, fill: FillOptions): Promise<BenchServer & { users: FilledUser[] }> {
  // The first start creates the database.
  const { data, adminToken, userToken, auth, stop } = await startBursar(bench);
  await stop();
  bench.log(`inserting ${fill.jobs.toLocaleString('en')} jobs`);
  const db = connectDatabase({ url: 'sqlite:bursar.db' }, data);
  const users = await fillDatabase(db, fill);
  await db.destroy();
  return { ...(await startBursar(bench, { data })), adminToken, userToken, auth, users };
}

/** The shipped configuration, with grants that no benchmark can exhaust. */
export function unlimitedConfig() {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) for (const project of system.projects) project.grant = grant;
  return config;
}

/** `unlimitedConfig` with a Slurm whose commands never end: no job is dispatched, so only submission is measured. */
export function stalledSlurmConfig(bench: Bench) {
  const folder = bench.temporaryFolder('stalled');
  for (const name of ['squeue', 'sbatch', 'scancel', 'scontrol', 'sacct'])
    writeFileSync(join(folder, name), '#!/bin/sh\nexec sleep 100000\n', { mode: 0o755 });
  const config = unlimitedConfig();
  const environment = { PATH: `${folder}:/usr/bin:/bin` };
  const engine = { kind: 'slurm', environment, accounting: 'none', commandTimeoutSeconds: 3600 };
  return {
    ...config,
    systems: { ...config.systems, hpc_one: { ...config.systems.hpc_one, engine, isolation: 'bubblewrap' } },
  };
}

/** Reads a counter of hpc_one from /metrics, summed over its other labels. */
export async function readCounter({ url }: { url: string }, name: string): Promise<number> {
  const text = await (await fetch(`${url}/metrics`)).text();
  const samples = text.matchAll(new RegExp(`^${name}\\{hpc="hpc_one"[^}]*\\} ([\\d.e-]+)`, 'gm'));
  return [...samples].reduce((sum, [, value]) => sum + Number(value), 0);
}
