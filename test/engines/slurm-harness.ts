import { join } from 'node:path';
import { test } from 'node:test';
import { createSlurmEngine, type SlurmEngineOptions } from '../../src/engines/slurm/engine.ts';
import { createLocalShell } from '../../src/shell/local-shell.ts';
import { type ClusterOptions, type SlurmCluster, startCluster } from '../support/slurm-cluster.ts';
import type { EngineHarness } from './engine-harness.ts';
import { newLocalJob } from './local-harness.ts';

export interface SlurmHarness extends EngineHarness {
  cluster: SlurmCluster;
  /** The names of all commands so far. */
  commands: string[];
}

export type SlurmHarnessOptions = ClusterOptions & Partial<SlurmEngineOptions>;

/** An engine on a cluster of its own, of two nodes with 16 cores each. */
export async function slurmHarness(options: SlurmHarnessOptions = {}): Promise<SlurmHarness> {
  const cluster = await startCluster(options);
  const commands: string[] = [];
  const create = () =>
    createSlurmEngine({
      shell: createLocalShell({ environment: cluster.env }),
      accounting: 'completion',
      commandTimeoutMs: 30_000,
      ...options,
      onCommand(name) {
        commands.push(name);
        options.onCommand?.(name);
      },
    });
  return {
    cluster,
    commands,
    engine: create(),
    newJob: (overrides) => newLocalJob(join(cluster.folder, 'work'), overrides),
    reopen: async () => create(),
    close: () => cluster.stop(),
    wholeSystem: { nodes: options.nodes ?? 2, coresPerNode: 16 },
    // Slurm counts time limits in minutes.
    shortestRuntimeSeconds: 60,
    keepsForgotten: true,
    writesIntoFiles: true,
    isSilent: true,
  };
}

/** Runs a test on a cluster of its own, and sees to it that nothing is left of it. */
export function slurmTest(
  title: string,
  options: SlurmHarnessOptions,
  body: (harness: SlurmHarness) => Promise<void>,
): void {
  test(title, async () => {
    const harness = await slurmHarness(options);
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}
