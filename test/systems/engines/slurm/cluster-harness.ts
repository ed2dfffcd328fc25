import { join } from 'node:path';
import { createSlurmEngine, type SlurmEngineOptions } from '../../../../src/engines/slurm/index.ts';
import { createLocalShell } from '../../../../src/shell/local-shell.ts';
import type { Shell } from '../../../../src/shell/shell.ts';
import { createSpawnClient } from '../../../../src/shell/spawn-client.ts';
import type { EngineHarness } from '../../../engines/engine-harness.ts';
import { newLocalJob } from '../../../engines/local/harness.ts';
import { attempt } from '../../../support/attempt.ts';
import { until } from '../../../support/until.ts';

export interface ClusterHarness<Cluster> extends EngineHarness {
  cluster: Cluster;
  shell: Shell;
  /** The names of all Slurm commands so far. */
  commands: string[];
}

/** Lets a running job reach its time limit. Slurm refuses a time that has passed when its controller reads the command. */
export async function endTimeLimit(
  { run }: { run(...command: [string, ...string[]]): string },
  ref: string,
): Promise<void> {
  const change = () => run('scontrol', 'update', `jobid=${ref}`, 'EndTime=now+1seconds') === '';
  await until('Slurm accepts the end of the time limit', () => attempt(change) || undefined);
}

export type SlurmHarnessOptions = Partial<SlurmEngineOptions> & {
  /** Creates the shell that reaches the cluster; a local shell by default. */
  createShell?(environment: Record<string, string>): Shell;
};

interface UsableCluster {
  env: { SLURM_CONF: string };
  folder: string;
  stop(): Promise<void>;
}

/** As in a server. */
export const startProcess = createSpawnClient();

/** Creates an engine for a cluster, which it stops in the end. */
export function createSlurmHarness<Cluster extends UsableCluster>(
  cluster: Cluster,
  options: SlurmHarnessOptions = {},
): ClusterHarness<Cluster> {
  const { createShell = (environment) => createLocalShell({ environment, startProcess }) } = options;
  const shell = createShell(cluster.env);
  const commands: string[] = [];
  const createEngine = () =>
    createSlurmEngine({
      shell,
      accounting: 'completion',
      isolation: null,
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
    engine: createEngine(),
    newJob: (overrides) => newLocalJob(join(cluster.folder, 'work'), overrides),
    reopen: async () => createEngine(),
    async close() {
      await shell.close();
      await cluster.stop();
    },
    wholeSystem: { nodes: 2, coresPerNode: 16 },
    // Slurm's time limits are whole minutes.
    minRuntimeSeconds: 60,
    cancelReason: 'cancelled (CANCELLED)',
    keepsFinishedJobs: true,
    outputGoesDirectlyToFiles: true,
    hasNoChangeEvents: true,
  };
}
