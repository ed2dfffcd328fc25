import { join } from 'node:path';
import { test } from 'node:test';
import type { Engine } from '../../../../src/engines/engine.ts';
import { createRemoteWorkspaces } from '../../../../src/files/workspaces/remote/remote-workspaces.ts';
import type { Shell } from '../../../../src/shell/shell.ts';
import { createSshShell } from '../../../../src/shell/ssh-shell.ts';
import { newJobId } from '../../../engines/local/harness.ts';
import { waitUntilRunning } from '../../../engines/observing.ts';
import { type SharedCluster, sharedCluster } from '../../../support/shared-cluster.ts';
import { notAborted } from '../../../support/signals.ts';
import { startSshd } from '../../../support/sshd.ts';
import {
  type ClusterHarness,
  createSlurmHarness,
  endTimeLimit,
  type SlurmHarnessOptions,
  startProcess,
} from './cluster-harness.ts';

export type SlurmHarness = ClusterHarness<SharedCluster>;

/** Creates an engine for a partition of the shared cluster. Of the jobs in the cluster it reports those of this harness. */
export async function slurmHarness(options: SlurmHarnessOptions = {}): Promise<SlurmHarness> {
  const harness = createSlurmHarness(await sharedCluster(), options);
  const { partition } = harness.cluster;
  const jobIds = new Set<string>();
  const withOwnJobs = (engine: Engine): Engine => ({
    ...engine,
    observe: async (...args) => (await engine.observe(...args)).filter(({ jobId }) => jobIds.has(jobId)),
  });
  return {
    ...harness,
    async reachTimeLimit(jobId, ref) {
      await waitUntilRunning(harness.engine, jobId);
      // Slurm checks the limits every 30 s. The accounting tests wait for a limit of a minute.
      await endTimeLimit(harness.cluster, ref);
    },
    engine: withOwnJobs(harness.engine),
    reopen: async () => withOwnJobs(await harness.reopen()),
    async newJob({ site, jobId = newJobId(), ...overrides } = {}) {
      jobIds.add(jobId);
      return await harness.newJob({ ...overrides, jobId, site: { partition, ...site } });
    },
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
  const root = join(harness.cluster.folder, 'workspaces');
  const workspaces = createRemoteWorkspaces({ shell: harness.shell, root, readTimeoutMs: 30_000 });
  return {
    ...harness,
    async newJob(overrides) {
      const job = await harness.newJob(overrides);
      await workspaces.stage(job.jobId, null, { maxEntries: 1, maxUnpackedBytes: 1, maxRatio: 1 }, notAborted);
      return { ...job, workspace: workspaces.pathsOf(job.jobId) };
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

/** Runs a test on a partition of the shared cluster. */
export function slurmTest(title: string, body: (harness: SlurmHarness) => Promise<void>): void {
  test(title, async () => {
    const harness = await slurmHarness();
    try {
      await body(harness);
    } finally {
      await harness.close();
    }
  });
}
