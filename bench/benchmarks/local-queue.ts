import { randomUUID } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createSlots } from '../../src/domain/slots.ts';
import { createCaller } from '../../test/support/api.ts';
import { until } from '../../test/support/until.ts';
import type { Bench, Benchmark } from '../benchmark.ts';
import { type BenchServer, readerId, startBursar, unlimitedConfig } from '../bursar.ts';
import { cpuSeconds, spinCpuSeconds } from '../processes.ts';
import { seedJobs } from '../seed.ts';

const clientCount = 16;
/** The dispatcher alternates between users, and each of these has its part of the queue. */
const userCount = 500;

/** hpc_one on the local engine with one core, which is busy: the measured jobs stay queued. */
function localConfig() {
  const config = unlimitedConfig();
  const engine = { kind: 'local', cores: 1 };
  const hpc_one = { ...config.systems.hpc_one, engine, submittedJobsPerUser: 1_000_000 };
  return { ...config, systems: { ...config.systems, hpc_one } };
}

const recordsOf = ({ data }: { data: string }) => join(data, 'engines', 'hpc_one');
const countRecords = (bursar: BenchServer) =>
  readdirSync(recordsOf(bursar)).filter((name) => !name.startsWith('.')).length;

async function submitOne({ url, userToken }: BenchServer, command: string): Promise<string> {
  const payload = { command, node_number: '1', core_number: '1', runtime: '0.5' };
  const { status, text, body } = await createCaller(url, userToken).submit('/jobs/hpc_one/', payload);
  if (status !== 201) throw new Error(`the submission was rejected: ${text}`);
  return body.job_id;
}

/** Starts a server whose only core is busy, and with `queued` jobs behind that one. */
async function startBusy(bench: Bench, queued: number): Promise<BenchServer> {
  const first = await startBursar(bench, { config: localConfig() });
  const jobId = await submitOne(first, 'sleep 100000');
  const startFile = join(recordsOf(first), jobId, 'start.json');
  await until('the start of the job that occupies the core', () => existsSync(startFile) || undefined);
  const { supervisor } = JSON.parse(readFileSync(startFile, 'utf8')) as { supervisor: { pid: number } };
  const bursar = queued === 0 ? first : await restartWithQueue(bench, first, queued);
  bench.defer(async () => {
    await bursar.stop();
    process.kill(supervisor.pid, 'SIGTERM');
    const endFile = join(recordsOf(bursar), jobId, 'exit.json');
    await until('the end of the job that occupies the core', () => existsSync(endFile) || undefined);
  });
  return bursar;
}

async function restartWithQueue(bench: Bench, first: BenchServer, queued: number): Promise<BenchServer> {
  await first.stop();
  fillQueue(first, queued);
  const { data, userToken } = first;
  return { ...(await startBursar(bench, { data, config: localConfig() })), userToken };
}

/** Writes the records of queued jobs, as the engine writes them, while no server runs. */
function fillQueue(bursar: BenchServer, queued: number): void {
  const names = Array.from({ length: queued }, () => randomUUID().toUpperCase());
  const ownerOf = (index: number) => (index % 2 === 0 ? readerId : String(500_000 + (index % userCount)));
  const engineJobs = names.map((name) => ({ name, ref: `local:${name}` }));
  seedJobs(bursar.databaseFile, { jobs: queued, ownerOf, engineJobs, statusOf: () => ({ state: 'queued' }) });
  for (const [index, jobId] of names.entries()) {
    const folder = join(recordsOf(bursar), jobId);
    mkdirSync(folder);
    const job = {
      ...{ jobId, nodes: 1, coresPerNode: 1, runtimeSeconds: 1800, owner: ownerOf(index), site: {} },
      command: { kind: 'line', line: 'true' },
      workspace: { directory: join(folder, 'files'), stdout: join(folder, 'stdout'), stderr: join(folder, 'stderr') },
    };
    writeFileSync(join(folder, 'request.json'), JSON.stringify({ sequence: index + 2, job }));
  }
}

/** The rate at which submitted jobs reach the queue of the engine. */
async function queueingRate(bursar: BenchServer, jobs: number): Promise<number> {
  const before = countRecords(bursar);
  const clients = createSlots({ total: clientCount });
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: jobs }, () => clients.run(() => submitOne(bursar, 'true'))));
  await until('all jobs are in the engine', () => countRecords(bursar) >= before + jobs || undefined);
  return jobs / ((performance.now() - startedAt) / 1000);
}

/** The cost of jobs that wait in the local engine. */
export const localQueue: Benchmark = {
  name: 'local-queue',
  async run(bench) {
    const { activeJobs, newJobs, restSeconds } = bench.size;
    const count = activeJobs.toLocaleString('en');
    const [full, empty] = await Promise.all([startBusy(bench, activeJobs), startBusy(bench, 0)]);
    await bench.compare({
      scenario: `processor time at rest, ${count} jobs queued on the local engine`,
      baseline: 'a busy core',
      unit: 's',
      threshold: { atMost: 0.03 },
      async ours() {
        const before = cpuSeconds(full.pid);
        await sleep(restSeconds * 1000);
        return cpuSeconds(full.pid) - before;
      },
      theirs: async () => spinCpuSeconds(restSeconds),
    });
    await bench.compare({
      scenario: `jobs into the local engine, ${count} queued`,
      baseline: 'the same with an empty queue',
      unit: 'jobs/s',
      threshold: { atLeast: 0.9 },
      ours: () => queueingRate(full, newJobs),
      theirs: () => queueingRate(empty, newJobs),
    });
  },
};
