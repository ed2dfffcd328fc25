import { join } from 'node:path';
import { createRemoteWorkspaces } from '../../files/workspaces/remote/remote-workspaces.ts';
import { createWorkspaces } from '../../files/workspaces/workspaces.ts';
import { createLocalShell } from '../../shell/local-shell.ts';
import type { Shell } from '../../shell/shell.ts';
import { createSshShell } from '../../shell/ssh-shell.ts';
import type { BackendContext, EngineBackend } from '../definition.ts';
import type { Engine } from '../engine.ts';
import type { BatchIsolation } from './resolve-isolation.ts';
import type { BatchSettings } from './settings.ts';

/** The backend of a batch scheduler, whose commands run on this host or over ssh. */
export function createBatchBackend(
  context: BackendContext<BatchSettings, BatchIsolation>,
  createEngine: (shell: Shell) => Engine,
): EngineBackend {
  const { system, dataFolder, workspaceFolder, protectedFiles, spawnClient } = context;
  const { ssh, environment, commandTimeoutSeconds, missingAlarmSeconds } = system.engine;
  const { startProcess } = spawnClient;
  const maxEntries = system.limits.files;
  const shell = ssh
    ? createSshShell({ ...ssh, environment, startProcess, controlFolder: join(dataFolder, 'ssh') })
    : createLocalShell({ environment, startProcess });
  return {
    createEngine: () => createEngine(shell),
    workspaces: ssh
      ? createRemoteWorkspaces({
          shell,
          root: workspaceFolder,
          maxEntries,
          readTimeoutMs: commandTimeoutSeconds * 1000,
        })
      : createWorkspaces(workspaceFolder, { protectedFiles, maxEntries }),
    shell,
    missingAlarmMs: missingAlarmSeconds * 1000,
    maxPollMs: system.idleWatchSeconds * 1000,
    fullScanMs: 0,
  };
}
