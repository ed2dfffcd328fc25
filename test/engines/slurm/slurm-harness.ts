import { join } from 'node:path';
import { test } from 'node:test';
import { createSlurmEngine, type SlurmEngineOptions } from '../../../src/engines/slurm/engine.ts';
import { createRemoteWorkspaces } from '../../../src/files/workspaces/remote/remote-workspaces.ts';
import { createLocalShell } from '../../../src/shell/local-shell.ts';
import type { Shell } from '../../../src/shell/shell.ts';
import { createSshShell } from '../../../src/shell/ssh-shell.ts';
import { type ClusterOptions, type SlurmCluster, startCluster } from '../../support/slurm-cluster.ts';
import { startSshd } from '../../support/sshd.ts';
import type { EngineHarness } from '../engine-harness.ts';
import { newJobId, newLocalJob, smallJob } from '../local/harness.ts';

export interface SlurmHarness extends EngineHarness {
  cluster: SlurmCluster;
  shell: Shell;
  /** The names of all commands so far. */
  commands: string[];
}

export type SlurmHarnessOptions = ClusterOptions &
  Partial<SlurmEngineOptions> & {
    /** What reaches the cluster; the local shell where it is left out. */
    shellOf?(environment: Record<string, string>): Shell;
  };

/** An engine on a cluster of its own, of two nodes with 16 cores each. */
export async function slurmHarness(options: SlurmHarnessOptions = {}): Promise<SlurmHarness> {
  const { shellOf = (environment) => createLocalShell({ environment }) } = options;
  const cluster = await startCluster(options);
  const shell = shellOf(cluster.env);
  const commands: string[] = [];
  const create = () =>
    createSlurmEngine({
      shell,
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
    shell,
    commands,
    engine: create(),
    newJob: (overrides) => newLocalJob(join(cluster.folder, 'work'), overrides),
    reopen: async () => create(),
    async close() {
      await shell.close();
      await cluster.stop();
    },
    wholeSystem: { nodes: options.nodes ?? 2, coresPerNode: 16 },
    // Slurm counts time limits in minutes.
    minRuntimeSeconds: 60,
    cancelReason: 'cancelled (CANCELLED)',
    keepsFinishedJobs: true,
    outputGoesDirectlyToFiles: true,
    hasNoChangeEvents: true,
  };
}

/** The same cluster, reached only by ssh: commands and workspaces go over one connection. */
export async function slurmSshHarness(): Promise<SlurmHarness> {
  const sshd = await startSshd();
  const harness = await slurmHarness({ shellOf: (environment) => createSshShell({ ...sshd.options, environment }) });
  const staging = join(sshd.folder, 'staging');
  const root = join(harness.cluster.folder, 'workspaces');
  const workspaces = createRemoteWorkspaces({ shell: harness.shell, root, staging });
  return {
    ...harness,
    async newJob(overrides = {}) {
      const jobId = overrides.jobId ?? newJobId();
      await workspaces.stage(jobId, null, { maxEntries: 1, maxUnpackedBytes: 1, maxRatio: 1 });
      return { ...smallJob, jobId, workspace: workspaces.pathsOf(jobId), ...overrides };
    },
    async close() {
      await harness.close();
      await sshd.close();
    },
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
