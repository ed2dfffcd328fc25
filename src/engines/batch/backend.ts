import { join } from 'node:path';
import { createRemoteWorkspaces } from '../../files/workspaces/remote/remote-workspaces.ts';
import { createWorkspaces } from '../../files/workspaces/workspaces.ts';
import { createLocalShell } from '../../shell/local-shell.ts';
import { createSshShell } from '../../shell/ssh-shell.ts';
import type {
  BackendContext,
  EngineBackend,
  EngineDefinition,
  EngineSystem,
  IsolationContext,
  SystemIsolation,
} from '../definition.ts';
import type { Engine } from '../engine.ts';
import type { HiddenPath } from '../sandbox/arguments.ts';
import { findHiddenPaths } from '../sandbox/host.ts';
import type { CommandOptions } from './run-command.ts';
import type { BatchSettings } from './settings.ts';

export interface BatchOptions extends CommandOptions {
  /** How jobs are isolated; null if they are not. */
  isolation: BatchIsolation | null;
}

/** The backend of a batch scheduler, whose commands run on this host or over ssh. */
export function createBatchBackend(
  context: BackendContext<BatchSettings, BatchIsolation>,
  createEngine: (options: BatchOptions) => Engine,
): EngineBackend {
  const { system, dataFolder, workspaceFolder, protectedFiles, isolation, startProcess, onCommand, onCommandEnd } =
    context;
  const { ssh, environment, commandTimeoutSeconds } = system.engine;
  const maxEntries = system.limits.files;
  const commandTimeoutMs = commandTimeoutSeconds * 1000;
  const shell = ssh
    ? createSshShell({ ...ssh, environment, startProcess, controlFolder: join(dataFolder, 'ssh') })
    : createLocalShell({ environment, startProcess });
  return {
    createEngine: () =>
      createEngine({
        shell,
        commandTimeoutMs,
        configuredVariables: Object.keys(environment),
        isolation: isolation.sandbox ?? null,
        onCommand,
        onCommandEnd,
      }),
    workspaces: ssh
      ? createRemoteWorkspaces({ shell, root: workspaceFolder, maxEntries, readTimeoutMs: commandTimeoutMs })
      : createWorkspaces(workspaceFolder, { protectedFiles, maxEntries }),
    shell,
    maxPollMs: system.maxPollIntervalSeconds * 1000,
    fullScanMs: 0,
  };
}

type BatchDefinition = EngineDefinition<BatchSettings, BatchIsolation>;

/** The common part of the definitions of all batch schedulers. */
export const batchDefinition: Pick<BatchDefinition, 'findErrors' | 'resolveIsolation'> = {
  findErrors: ({ ssh, workspaceFolder }) =>
    ssh === undefined || workspaceFolder !== undefined
      ? []
      : [['workspaceFolder', 'is required with ssh: set it to a folder on the cluster']],
  resolveIsolation: resolveBatchIsolation,
};

/** How the jobs of a cluster are isolated. */
export interface BatchIsolation {
  /** Whether a job that cannot be isolated on its node fails. Otherwise it runs without isolation. */
  required: boolean;
  /** Further paths that jobs can read. */
  readOnly: readonly string[];
  /** Paths that jobs must not see, if they exist on the node, although they may be inside a path that jobs can read. */
  hidden: readonly HiddenPath[];
  network: boolean;
  /** Whether jobs reach the scheduler. They can leave their isolation then: it starts tasks outside. */
  scheduler: boolean;
}

/**
 * Only the nodes know whether bubblewrap works there. With `auto` each node decides, so that nothing is promised: jobs count as
 * not isolated.
 */
function resolveBatchIsolation(
  { engine, isolation, readOnly, network, scheduler }: EngineSystem,
  { workspaceFolders, secrets, ensured }: IsolationContext,
): SystemIsolation<BatchIsolation> {
  if (isolation === 'none') return { inEffect: ensured };
  // With ssh the files of Bursar are on another host than the jobs.
  const hidden = [
    ...[...new Set(workspaceFolders)].map((path) => ({ path, kind: 'folder' }) as const),
    ...(engine.ssh ? [] : findHiddenPaths(secrets)),
  ];
  return { inEffect: ensured, sandbox: { required: isolation === 'bubblewrap', readOnly, network, scheduler, hidden } };
}
