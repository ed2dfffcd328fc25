import { test } from 'node:test';
import { type ClusterOptions, type SlurmCluster, startCluster } from '../../../support/slurm-cluster.ts';
import { type ClusterHarness, createSlurmHarness, type SlurmHarnessOptions } from './cluster-harness.ts';

export type OwnClusterOptions = ClusterOptions & SlurmHarnessOptions;
export type OwnClusterHarness = ClusterHarness<SlurmCluster>;

/** Starts a private cluster, by default of two nodes with 16 cores each, and creates an engine for it. */
export async function ownClusterHarness(options: OwnClusterOptions = {}): Promise<OwnClusterHarness> {
  const cluster = await startCluster(options);
  const { wholeSystem, ...harness } = createSlurmHarness(cluster, options);
  return { ...harness, wholeSystem: { ...wholeSystem, nodes: options.nodes ?? wholeSystem.nodes } };
}

/** Runs a test that damages its cluster, or that needs other settings of it than the shared one has. */
export function ownClusterTest(
  title: string,
  options: OwnClusterOptions,
  body: (harness: OwnClusterHarness) => Promise<void>,
): void {
  test(title, async () => {
    const harness = await ownClusterHarness(options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}
