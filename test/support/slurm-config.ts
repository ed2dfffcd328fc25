import { join } from 'node:path';

/** A cluster of `startCluster`, or of `sharedCluster`, where jobs must use the partition. */
interface Cluster {
  env: { SLURM_CONF: string };
  partition?: string;
}

/** A configuration with hpc_one on a Slurm cluster. */
export function slurmConfig(
  { env, partition }: Cluster,
  engine: Record<string, unknown> = {},
  system: Record<string, unknown> = {},
) {
  return {
    systems: {
      hpc_one: {
        kind: 'batch',
        engine: {
          kind: 'slurm',
          environment: env,
          accounting: 'completion',
          commandTimeoutSeconds: 20,
          ...(partition === undefined ? {} : { site: { partition } }),
          ...engine,
        },
        // Stated, because Bursar does not start with `auto` here: jobs share its account, and workspaces are in the data folder.
        isolation: 'bubblewrap',
        pollIntervalSeconds: 0.5,
        maxPollIntervalSeconds: 2,
        measureIntervalSeconds: 1,
        limits: { nodes: 2, coresPerNode: 16, runtimeHours: 1 },
        projects: [{ name: 'proj_hpc_one_01' }],
        ...system,
      },
    },
  };
}

/** The same, for jobs that write outside their workspaces, such as to record that they ran. */
export function notIsolatedSlurmConfig(cluster: Cluster & { folder: string }, engine: Record<string, unknown> = {}) {
  const workspaceFolder = join(cluster.folder, 'workspaces');
  return slurmConfig(cluster, { workspaceFolder, ...engine }, { isolation: 'none' });
}
