import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import { createCaller } from '../../test/support/api.ts';
import type { SlurmCluster } from '../../test/support/slurm-cluster.ts';
import { until } from '../../test/support/until.ts';
import type { Benchmark } from '../benchmark.ts';
import { type BenchServer, startBursar } from '../bursar.ts';
import { slurmConfig, startSlurm } from '../slurm-queue.ts';
import { smallZip, submitOne } from '../submissions.ts';

const run = promisify(execFile);
const concurrency = 8;
/** Five rounds and a warm-up, of two sides each, fill the queue. */
const sidesPerRun = 12;

export const dispatch: Benchmark = {
  name: 'dispatch',
  requires: ['Slurm'],
  async run(bench) {
    const jobs = Math.ceil(bench.size.activeJobs / sidesPerRun);
    const cluster = await startSlurm(bench);
    // The jobs stay in the queue: none of them takes CPU time from either side.
    cluster.run('scontrol', 'update', 'partitionname=main', 'state=down');
    // Not pinned to one CPU: the commands that it starts would be, too.
    const bursar = await startBursar(bench, { config: slurmConfig(cluster, 5), isPinned: false });
    const zip = readFileSync(await smallZip(bench));
    const database = new Sqlite(bursar.databaseFile, { readonly: true });
    bench.defer(() => database.close());
    const countQueued = database.prepare("select count(*) from jobs where state = 'queued'").pluck();
    let expected = 0;
    await bench.compare({
      scenario: `jobs from POST to a queue of Slurm that grows to ${bench.size.activeJobs.toLocaleString('en')}`,
      baseline: `sbatch, ${concurrency} at once`,
      unit: 'jobs/s',
      threshold: { atLeast: 0.5 },
      async ours() {
        expected += jobs;
        const startedAt = performance.now();
        await submitAll(bursar, zip, jobs);
        await until('all jobs are in Slurm', () => countQueued.get() === expected || undefined);
        await until('all jobs are released', async () => !(await hasHeldJobs(cluster)) || undefined);
        return (jobs / (performance.now() - startedAt)) * 1000;
      },
      theirs: () => sbatchAll(cluster, jobs),
    });
  },
};

/** Submits jobs of two users, as many at once as sbatch does. */
async function submitAll(bursar: BenchServer, zip: Buffer, jobs: number): Promise<void> {
  let left = jobs;
  const submitSome = async (token: string) => {
    const client = createCaller(bursar.url, token);
    while (left-- > 0) await submitOne(client, zip);
  };
  const tokens = [bursar.userToken, bursar.adminToken];
  await Promise.all(Array.from({ length: concurrency }, (_, n) => submitSome(tokens[n % 2] ?? '')));
}

async function hasHeldJobs(cluster: SlurmCluster): Promise<boolean> {
  const { stdout } = await run('squeue', ['-h', '-o', '%r'], {
    env: { ...process.env, ...cluster.env },
    maxBuffer: 1e8,
  });
  return stdout.includes('JobHeldUser');
}

async function sbatchAll(cluster: SlurmCluster, jobs: number): Promise<number> {
  const sbatch = 'sbatch -Q -n 4 -t 30 -o /dev/null --wrap true';
  const startedAt = performance.now();
  await run('bash', ['-c', `seq ${jobs} | xargs -P ${concurrency} -n 1 ${sbatch} -J`], {
    env: { ...process.env, ...cluster.env },
  });
  return (jobs / (performance.now() - startedAt)) * 1000;
}
