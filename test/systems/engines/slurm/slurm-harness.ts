import { join } from 'node:path';
import { test } from 'node:test';
import { createSlurmEngine, type SlurmEngineOptions } from '../../../../src/engines/slurm/engine.ts';
import { createRemoteWorkspaces } from '../../../../src/files/workspaces/remote/remote-workspaces.ts';
import { createLocalShell } from '../../../../src/shell/local-shell.ts';
import type { Shell } from '../../../../src/shell/shell.ts';
import { createSpawnClient } from '../../../../src/shell/spawn-client.ts';
import { createSshShell } from '../../../../src/shell/ssh-shell.ts';
import type { EngineHarness } from '../../../engines/engine-harness.ts';
import { newJobId, newLocalJob, smallJob } from '../../../engines/local/harness.ts';
import { notAborted } from '../../../support/signals.ts';
import { type ClusterOptions, type SlurmCluster, startCluster } from '../../../support/slurm-cluster.ts';
import { startSshd } from '../../../support/sshd.ts';

export interface SlurmHarness extends EngineHarness {
  cluster: SlurmCluster;
  shell: Shell;
  /** The names of all Slurm commands so far. */
  commands: string[];
}

export type SlurmHarnessOptions = ClusterOptions &
  Partial<SlurmEngineOptions> & {
    /** Creates the shell that reaches the cluster; a local shell by default. */
    createShell?(environment: Record<string, string>): Shell;
  };

/** Commands of Slurm give up after this time: shorter than the limit of Bursar, and long enough for a slow machine. */
const messageTimeout = 'MessageTimeout=25';

/** As in a server. */
const { startProcess } = createSpawnClient();

/** Starts a private cluster, by default of two nodes with 16 cores each, and creates an engine for it. */
export async function slurmHarness(options: SlurmHarnessOptions = {}): Promise<SlurmHarness> {
  const { createShell = (environment) => createLocalShell({ environment, startProcess }) } = options;
  const cluster = await startCluster({ extraConf: [messageTimeout], ...options });
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
    wholeSystem: { nodes: options.nodes ?? 2, coresPerNode: 16 },
    // Slurm's time limits are whole minutes.
    minRuntimeSeconds: 60,
    cancelReason: 'cancelled (CANCELLED)',
    keepsFinishedJobs: true,
    outputGoesDirectlyToFiles: true,
    hasNoChangeEvents: true,
  };
}

/** The same, but reached only by ssh: commands and workspaces use one connection. */
export async function slurmSshHarness(options: SlurmHarnessOptions = {}): Promise<SlurmHarness> {
  const sshd = await startSshd();
  const harness = await slurmHarness({
    ...options,
    createShell: (environment) => createSshShell({ ...sshd.options, environment, startProcess }),
  }).catch(async (error) => {
    // A running sshd would keep the test process alive.
    await sshd.close();
    throw error;
  });
  const staging = join(sshd.folder, 'staging');
  const root = join(harness.cluster.folder, 'workspaces');
  const workspaces = createRemoteWorkspaces({ shell: harness.shell, root, staging, readTimeoutMs: 30_000 });
  return {
    ...harness,
    async newJob(overrides = {}) {
      const jobId = overrides.jobId ?? newJobId();
      await workspaces.stage(jobId, null, { maxEntries: 1, maxUnpackedBytes: 1, maxRatio: 1 }, notAborted);
      return { ...smallJob, jobId, workspace: workspaces.pathsOf(jobId), ...overrides };
    },
    async close() {
      await harness.close();
      await sshd.close();
    },
  };
}

/** The same shell, but its commands run as an ordinary account without groups. Needs root. */
export function shellAs(account: string, shell: Shell): Shell {
  const become = ['setpriv', `--reuid=${account}`, '--regid=65534', '--clear-groups', '--'];
  return { ...shell, run: (argv, options) => shell.run([...become, ...argv], options) };
}

/** Runs a test on a private cluster, and stops the cluster afterwards. */
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
