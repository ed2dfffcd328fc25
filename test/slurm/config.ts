import type { SlurmCluster } from '../support/slurm-cluster.ts';

/** A configuration with hpc_one on a private Slurm cluster. */
export function slurmConfig(cluster: Pick<SlurmCluster, 'env'>, engine: Record<string, unknown> = {}) {
  return {
    systems: {
      hpc_one: {
        kind: 'batch',
        engine: {
          kind: 'slurm',
          environment: cluster.env,
          accounting: 'completion',
          commandTimeoutSeconds: 20,
          ...engine,
        },
        watchSeconds: 0.5,
        idleWatchSeconds: 2,
        measureSeconds: 1,
        limits: { nodes: 2, coresPerNode: 16, runtimeHours: 1 },
        projects: [{ name: 'proj_hpc_one_01' }],
      },
    },
  };
}
