import type { SystemConfig } from '../config/system-schema.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import type { BackendContext, EngineBackend, EngineSettings, SystemIsolation } from '../engines/definition.ts';
import { engineOf } from '../engines/registry.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { workspaceFolderOf } from './isolation.ts';

/** Engine, files and shell of an HPC system, and its settings for the workers. */
export interface SystemBackend extends EngineBackend {
  isolation: Isolation;
  siteOptions(project: string): object;
  maxJobsPerUser: number;
  measureMs: number;
  minPollMs: number;
}

export interface SystemBackendOptions
  extends Pick<BackendContext<EngineSettings, unknown>, 'dataFolder' | 'protectedFiles' | 'startProcess' | 'onError'> {
  settings: SystemConfig;
  isolation: SystemIsolation;
}

export function createSystemBackend(
  name: string,
  { settings, isolation, ...options }: SystemBackendOptions,
  metrics: Pick<Metrics, 'increment' | 'observe'>,
  tracing: Tracing | null,
): SystemBackend {
  const backend = engineOf(settings).createBackend({
    ...options,
    name,
    system: settings,
    workspaceFolder: workspaceFolderOf(settings, options.dataFolder),
    isolation,
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
  });
  return {
    ...backend,
    isolation: isolation.inEffect,
    siteOptions: (project) => ({
      ...settings.engine.site,
      ...settings.projects.find((candidate) => candidate.name === project)?.site,
    }),
    maxJobsPerUser: settings.submittedJobsPerUser,
    measureMs: settings.measureIntervalSeconds * 1000,
    minPollMs: settings.pollIntervalSeconds * 1000,
  };
}
