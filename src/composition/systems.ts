import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { SystemConfig } from '../config/system-schema.ts';
import type { Engine, SiteOptions } from '../engines/engine.ts';
import { createLocalEngine } from '../engines/local/engine.ts';
import { createSlurmEngine } from '../engines/slurm/engine.ts';
import { createRemoteWorkspaces } from '../files/workspaces/remote/remote-workspaces.ts';
import { createWorkspaces, type Workspaces } from '../files/workspaces/workspaces.ts';
import type { Metrics } from '../metrics/registry.ts';
import { createLocalShell } from '../shell/local-shell.ts';
import type { Shell } from '../shell/shell.ts';
import { createSshShell } from '../shell/ssh-shell.ts';

/** Engine, files and shell of an HPC system, as configured. */
export interface SystemBackend {
  /** Called each time the lease of the system is acquired, because an engine caches observations. */
  createEngine(): Engine;
  workspaces: Workspaces;
  /** Null for the local engine. */
  shell: Shell | null;
  siteOptions(project: string): SiteOptions;
  missingAlarmMs: number;
  delayAlarmMs: number;
  maxJobsPerUser: number;
  minPollMs: number;
  maxPollMs: number;
}

export function createSystemBackend(
  name: string,
  settings: SystemConfig,
  dataFolder: string,
  metrics: Pick<Metrics, 'increment'>,
): SystemBackend {
  const { engine: options } = settings;
  const minPollMs = settings.watchSeconds * 1000;
  const delayAlarmMs = settings.delayAlarmSeconds * 1000;
  const maxJobsPerUser = settings.submittedJobsPerUser;
  const workspaceFolder = join(dataFolder, 'workspaces');
  if (options.kind === 'local') {
    const { memoryMb, outputKb, killGraceSeconds, cores = availableParallelism() } = options;
    const directory = join(dataFolder, 'engines', name);
    return {
      createEngine: () => createLocalEngine({ directory, cores, memoryMb, outputKb, killGraceSeconds }),
      workspaces: createWorkspaces(workspaceFolder),
      shell: null,
      siteOptions: () => ({}),
      missingAlarmMs: 60_000,
      delayAlarmMs,
      maxJobsPerUser,
      // Observing local processes is cheap, so an idle system is polled as often as a busy one.
      minPollMs,
      maxPollMs: minPollMs,
    };
  }
  const { ssh, environment, accounting } = options;
  const shell = ssh
    ? createSshShell({ ...ssh, environment, controlFolder: join(dataFolder, 'ssh') })
    : createLocalShell({ environment });
  const root = options.workspaceFolder ?? workspaceFolder;
  return {
    createEngine: () =>
      createSlurmEngine({
        shell,
        accounting,
        commandTimeoutMs: options.commandTimeoutSeconds * 1000,
        now: Date.now,
        onCommand: (command) => metrics.increment('bursar_scheduler_commands_total', { hpc: name, command }),
      }),
    workspaces: ssh
      ? createRemoteWorkspaces({
          shell,
          root,
          staging: join(dataFolder, 'staging', name),
          readTimeoutMs: options.commandTimeoutSeconds * 1000,
        })
      : createWorkspaces(root),
    shell,
    siteOptions: (project) => ({
      ...options.site,
      ...settings.projects.find((candidate) => candidate.name === project)?.site,
    }),
    missingAlarmMs: options.missingAlarmSeconds * 1000,
    delayAlarmMs,
    maxJobsPerUser,
    minPollMs,
    maxPollMs: settings.idleWatchSeconds * 1000,
  };
}
