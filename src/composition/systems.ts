import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { SystemConfig } from '../config/system-schema.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import type { Engine, SiteOptions } from '../engines/engine.ts';
import { createLocalEngine } from '../engines/local/engine.ts';
import type { SupervisorClient } from '../engines/local/supervisor/client.ts';
import { createSlurmEngine } from '../engines/slurm/engine.ts';
import { createRemoteWorkspaces } from '../files/workspaces/remote/remote-workspaces.ts';
import { createWorkspaces, type Workspaces } from '../files/workspaces/workspaces.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createLocalShell } from '../shell/local-shell.ts';
import type { Shell } from '../shell/shell.ts';
import type { SpawnClient } from '../shell/spawn-client.ts';
import { createSshShell } from '../shell/ssh-shell.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { type SystemIsolation, workspaceFolderOf } from './isolation.ts';

/** Engine, files and shell of an HPC system, as configured. */
export interface SystemBackend {
  isolation: Isolation;
  /** Called each time the lease of the system is acquired, because an engine caches observations. */
  createEngine(): Engine;
  workspaces: Workspaces;
  /** Null for the local engine. */
  shell: Shell | null;
  siteOptions(project: string): SiteOptions;
  missingAlarmMs: number;
  delayAlarmMs: number;
  maxJobsPerUser: number;
  measureMs: number;
  minPollMs: number;
  maxPollMs: number;
  compareMs: number;
}

export interface SystemBackendOptions {
  settings: SystemConfig;
  dataFolder: string;
  isolation: SystemIsolation;
  /** Files that are never opened as files of a job: see `lockedFiles` of the database. */
  protectedFiles: readonly string[];
  /** Starts the commands of a scheduler. */
  spawnClient: SpawnClient;
  /** Runs local jobs. */
  supervisor: SupervisorClient;
}

export function createSystemBackend(
  name: string,
  options: SystemBackendOptions,
  metrics: Pick<Metrics, 'increment' | 'observe'>,
  tracing: Tracing | null,
): SystemBackend {
  const { settings, dataFolder, protectedFiles, supervisor } = options;
  const { startProcess } = options.spawnClient;
  const { inEffect: isolation, sandbox, account, slurm } = options.isolation;
  const { engine } = settings;
  const minPollMs = settings.watchSeconds * 1000;
  const delayAlarmMs = settings.delayAlarmSeconds * 1000;
  const maxJobsPerUser = settings.submittedJobsPerUser;
  const measureMs = settings.measureSeconds * 1000;
  const maxEntries = settings.limits.files;
  const workspaceFolder = workspaceFolderOf(settings, dataFolder);
  if (engine.kind === 'local') {
    const { memoryMb, outputKb, killGraceSeconds, cores = availableParallelism() } = engine;
    const directory = join(dataFolder, 'engines', name);
    const jobOptions = {
      memoryMb,
      outputKb,
      killGraceSeconds,
      ...(sandbox ? { sandbox } : {}),
      ...(account ? { account } : {}),
    };
    return {
      isolation,
      createEngine: () => createLocalEngine({ directory, cores, supervisor, ...jobOptions }),
      workspaces: createWorkspaces(workspaceFolder, { protectedFiles, maxEntries }),
      shell: null,
      siteOptions: () => ({}),
      missingAlarmMs: 60_000,
      delayAlarmMs,
      maxJobsPerUser,
      measureMs,
      // Observing local processes is cheap, so an idle system is polled as often as a busy one.
      minPollMs,
      maxPollMs: minPollMs,
      // Its records are durable, so that no job gets lost.
      compareMs: 10_000,
    };
  }
  const { ssh, environment, accounting } = engine;
  const shell = ssh
    ? createSshShell({ ...ssh, environment, startProcess, controlFolder: join(dataFolder, 'ssh') })
    : createLocalShell({ environment, startProcess });
  return {
    isolation,
    createEngine: () =>
      createSlurmEngine({
        shell,
        accounting,
        commandTimeoutMs: engine.commandTimeoutSeconds * 1000,
        now: Date.now,
        isolation: slurm ?? null,
        configuredVariables: Object.keys(environment),
        onCommand: (command) => metrics.increment('bursar_scheduler_commands_total', { hpc: name, command }),
        onCommandEnd: ({ name: command, startedAt, endedAt, hasFailed }) => {
          const labels = { hpc: name, command };
          metrics.observe('bursar_scheduler_command_duration_seconds', labels, Math.max(0, endedAt - startedAt) / 1000);
          if (hasFailed) metrics.increment('bursar_scheduler_command_failures_total', labels);
          // Polls of all jobs belong to no trace.
          if (!tracing?.isActive()) return;
          const span = tracing.startSpan(command, { kind: 'client', startedAt, attributes: { 'bursar.hpc': name } });
          span.end({ endedAt, hasFailed });
        },
      }),
    workspaces: ssh
      ? createRemoteWorkspaces({
          shell,
          root: workspaceFolder,
          staging: join(dataFolder, 'staging', name),
          readTimeoutMs: engine.commandTimeoutSeconds * 1000,
          maxEntries,
        })
      : createWorkspaces(workspaceFolder, { protectedFiles, maxEntries }),
    shell,
    siteOptions: (project) => ({
      ...engine.site,
      ...settings.projects.find((candidate) => candidate.name === project)?.site,
    }),
    missingAlarmMs: engine.missingAlarmSeconds * 1000,
    delayAlarmMs,
    maxJobsPerUser,
    measureMs,
    minPollMs,
    maxPollMs: settings.idleWatchSeconds * 1000,
    compareMs: 0,
  };
}
