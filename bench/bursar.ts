import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { type ServerProcess, type ServerProcessOptions, spawnServer } from '../test/support/server-process.ts';
import { shippedConfig } from '../test/support/shipped-config.ts';
import type { Bench } from './benchmark.ts';
import { temporaryFolder } from './folders.ts';
import { pinToCpu, serverCpu } from './processes.ts';
import { type StoredJob, seedJobs } from './seed.ts';

/** Far beyond what any benchmark asks for: they measure what Bursar can do, not what it lets one caller do. */
const limits = { userRequests: 1e9, tokenRequests: 1e9, addressRequests: 1e9, uploads: 1e6 };
const grant = { timeSeconds: 1e10, spaceKb: 1e10 };

/** The user whose token is printed at the first start. */
export const readerId = '301330';

export interface BenchServer extends ServerProcess {
  pid: number | undefined;
  /** The headers of the reader. */
  auth: Record<string, string>;
  /** The SQLite file. */
  databaseFile: string;
}

/** A real server on a data folder of its own, on the processor that the yardsticks have too; its log goes to a file. */
export async function startBursar(bench: Bench, options: ServerProcessOptions = {}): Promise<BenchServer> {
  const data = options.data ?? mkdtempSync(join(tmpdir(), 'bursar-bench-'));
  const config = { limits, ...(options.config ?? unlimitedConfig()) };
  const profiling = bench.profileFolder && {
    NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${resolve(bench.profileFolder)}`,
  };
  const env = { ...options.env, ...profiling };
  const server = await spawnServer({ ...options, env, data, config, logFile: join(data, 'server.log') });
  bench.defer(server.dispose);
  pinToCpu(server.process.pid, serverCpu);
  const auth = { authorization: `Bearer ${server.userToken}` };
  return { ...server, pid: server.process.pid, auth, databaseFile: join(data, 'bursar.db') };
}

/** One whose reader has so many jobs. */
export async function startWithJobs(bench: Bench, jobs: number): Promise<{ bursar: BenchServer; jobs: StoredJob[] }> {
  const bursar = await startBursar(bench);
  return { bursar, jobs: seedJobs(bursar.databaseFile, { jobs, ownerOf: () => readerId }) };
}

/** The shipped configuration, with grants that no benchmark can use up. */
export function unlimitedConfig() {
  const config = shippedConfig();
  for (const system of Object.values(config.systems)) for (const project of system.projects) project.grant = grant;
  return config;
}

/**
 * The same, with hpc_one on a Slurm whose commands never end: what is submitted stays where it is, and nothing but the
 * submission is measured.
 */
export function stalledSlurmConfig(bench: Bench) {
  const folder = temporaryFolder(bench, 'stalled');
  for (const name of ['squeue', 'sbatch', 'scancel', 'scontrol', 'sacct'])
    writeFileSync(join(folder, name), '#!/bin/sh\nexec sleep 100000\n', { mode: 0o755 });
  const config = unlimitedConfig();
  const environment = { PATH: `${folder}:/usr/bin:/bin` };
  const engine = { kind: 'slurm', environment, accounting: 'none', commandTimeoutSeconds: 3600 };
  return { ...config, systems: { ...config.systems, hpc_one: { ...config.systems.hpc_one, engine } } };
}
