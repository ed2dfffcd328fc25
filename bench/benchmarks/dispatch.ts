import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import Sqlite from 'better-sqlite3';
import type { SlurmCluster } from '../../test/support/slurm-cluster.ts';
import type { Benchmark } from '../benchmark.ts';
import { startBursar } from '../bursar.ts';
import { slurmConfig, startSlurm } from '../slurm-queue.ts';
import { smallZip, submitAll } from '../submissions.ts';

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
    const rates = { ours: [] as number[], theirs: [] as number[] };
    const scenario = `jobs from POST to a queue of Slurm that grows to ${bench.size.activeJobs.toLocaleString('en')}`;
    await bench.compare({
      scenario,
      baseline: `sbatch, ${concurrency} at once`,
      unit: 'jobs/s',
      threshold: { atLeast: 0.5 },
      async ours() {
        expected += jobs;
        const startedAt = performance.now();
        await submitAll(bursar.url, [bursar.userToken, bursar.adminToken], zip, { jobs, connections: concurrency });
        while (countQueued.get() !== expected) await sleep(20);
        while (await hasHeldJobs(cluster)) await sleep(20);
        const rate = (jobs / (performance.now() - startedAt)) * 1000;
        rates.ours.push(rate);
        return rate;
      },
      async theirs() {
        const rate = await sbatchAll(cluster, jobs);
        rates.theirs.push(rate);
        return rate;
      },
    });
    // Relative to the baseline, so that other load on the machine does not count.
    const ratios = rates.ours
      .map((rate, round) => rate / (rates.theirs[round] ?? Number.NaN))
      .slice(-bench.size.rounds);
    const third = Math.ceil(ratios.length / 3);
    await bench.compare({
      scenario: `${scenario}: the last third of the rounds`,
      baseline: 'the first third',
      unit: '× sbatch',
      threshold: { atLeast: 0.9 },
      rounds: 1,
      ours: async () => mean(ratios.slice(-third)),
      theirs: async () => mean(ratios.slice(0, third)),
    });
  },
};

const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

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
