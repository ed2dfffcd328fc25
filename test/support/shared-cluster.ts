import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { dirname, join } from 'node:path';
import { createRun } from './daemons.ts';
import { type SlurmCluster, startCluster } from './slurm-cluster.ts';
import { until } from './until.ts';

/** A partition with two nodes of 16 cores each, of the Slurm cluster that all tests of a run share. */
export interface SharedCluster {
  /** The environment that makes Slurm's commands use the cluster. */
  env: { SLURM_CONF: string };
  /** A folder for files of the test. `stop` removes it. */
  folder: string;
  /** Contains the files of Slurm itself. */
  slurmFolder: string;
  partition: string;
  nodes: readonly [string, string];
  /** Runs a command as an administrator of the cluster, and returns its stdout. */
  run(program: string, ...args: string[]): string;
  /** Cancels the jobs of the partition, and lets another test have it. */
  stop(): Promise<void>;
}

/** Contains the path of slurm.conf. */
export const sharedClusterVariable = 'BURSAR_TEST_SLURM';

/** A test that finds none free waits. */
const pairs = Array.from({ length: 8 }, (_, index) => ({
  partition: `pair${index + 1}`,
  nodes: [`n${2 * index + 1}`, `n${2 * index + 2}`] as const,
}));

/** Starts the cluster of a test run. The tests get `env`. */
export async function startSharedCluster(): Promise<{ env: Record<string, string>; stop: SlurmCluster['stop'] }> {
  const cluster = await startCluster({
    nodes: 2 * pairs.length,
    // Every squeue lists the jobs of all tests of this time.
    minJobAge: 120,
    extraConf: [
      'EnforcePartLimits=ALL',
      'PreemptType=preempt/partition_prio',
      'PreemptMode=CANCEL',
      ...pairs.map(({ partition, nodes }) => `PartitionName=${partition} Nodes=${nodes} MaxTime=INFINITE State=UP`),
    ],
  });
  return { env: { [sharedClusterVariable]: cluster.env.SLURM_CONF }, stop: cluster.stop };
}

/**
 * Reserves a partition of the cluster of this test run. A test must not damage the cluster: one that stops daemons or needs
 * other settings starts its own with `startCluster`. Bursar and an engine see the jobs of all partitions.
 */
export async function sharedCluster(): Promise<SharedCluster> {
  const conf = process.env[sharedClusterVariable];
  if (conf === undefined) throw new Error('there is no Slurm cluster: use scripts/run-tests.ts');
  const slurmFolder = dirname(conf);
  // With many cores, more tests run than there are partitions. Each has one for minutes.
  const { partition, nodes, lock } = await until('a partition is free', () => reservePair(slurmFolder), 1200);
  const folder = await mkdtemp(join(slurmFolder, 'test-'));
  await chmod(folder, 0o755);
  const env = { SLURM_CONF: conf };
  const run = createRun(folder, env);
  const endJobs = async () => {
    run('scancel', '--partition', partition);
    await until('the nodes are free', () => run('squeue', '-h', '-w', nodes.join(), '-o', '%i') === '' || undefined);
  };
  // Jobs of a test whose process died.
  await endJobs();
  return {
    ...{ env, folder, slurmFolder, partition, nodes, run },
    async stop() {
      await endJobs();
      await rm(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
      lock.close();
    },
  };
}

/** The kernel frees the pair when this process ends, however it does. */
async function reservePair(slurmFolder: string) {
  for (const pair of pairs) {
    const lock = createServer().unref();
    if (await listens(lock, `\0${slurmFolder}/${pair.partition}`)) return { ...pair, lock };
  }
  return undefined;
}

function listens(server: Server, path: string): Promise<boolean> {
  return new Promise((resolve) => {
    server.once('error', () => resolve(false));
    server.listen({ path }, () => resolve(true));
  });
}
