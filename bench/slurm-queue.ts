import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type ClusterOptions, type SlurmCluster, startCluster } from '../test/support/slurm-cluster.ts';
import type { Bench } from './benchmark.ts';
import { unlimitedConfig } from './bursar.ts';

/** Starts a real Slurm. */
export async function startSlurm(bench: Bench, options: ClusterOptions = {}): Promise<SlurmCluster> {
  const cluster = await startCluster({ nodes: 1, ...options });
  bench.defer(cluster.stop);
  return cluster;
}

/** Submits jobs that stay queued, with names like Bursar's; returns their names and ids. */
export function queueJobs(bench: Bench, cluster: SlurmCluster, count: number): { name: string; ref: string }[] {
  bench.log(`queueing ${count.toLocaleString('en')} jobs`);
  const names = join(cluster.folder, 'names');
  writeFileSync(names, Array.from({ length: count }, () => `${randomUUID().toUpperCase()}\n`).join(''));
  // Delayed, not held: Bursar would release held jobs.
  const sbatch = 'sbatch -Q --begin=now+10hours -n 1 -t 60 -o /dev/null --wrap true -J';
  cluster.run('bash', '-c', `xargs -P 4 -n 1 ${sbatch} < ${names}`);
  const lines = cluster.run('squeue', '-h', '-t', 'all', '-o', '%i %j').trim().split('\n');
  return lines.map((line) => {
    const [ref = '', name = ''] = line.split(' ');
    return { ref, name };
  });
}

/** The shipped configuration, with hpc_one on the cluster, a constant poll interval, and any number of jobs of a user. */
export function slurmConfig(cluster: SlurmCluster, pollIntervalSeconds: number) {
  const config = unlimitedConfig();
  const engine = { kind: 'slurm', environment: cluster.env, accounting: 'completion' };
  const hpc_one = {
    ...config.systems.hpc_one,
    isolation: 'bubblewrap',
    engine,
    pollIntervalSeconds,
    maxPollIntervalSeconds: pollIntervalSeconds,
    submittedJobsPerUser: 1_000_000,
  };
  return { ...config, systems: { ...config.systems, hpc_one } };
}
