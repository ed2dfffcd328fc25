import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { createWorkspaces } from '../../files/workspaces/workspaces.ts';
import type { EngineDefinition } from '../definition.ts';
import { sbatchLanguage } from '../slurm/sbatch-language.ts';
import { createLocalEngine } from './engine.ts';
import { resolveLocalIsolation } from './resolve-isolation.ts';
import type { LocalSandbox } from './sandbox.ts';
import { type LocalSettings, localSchema } from './schema.ts';
import { createSupervisorClient } from './supervisor/client.ts';

export const localEngine: EngineDefinition<LocalSettings, LocalSandbox> = {
  schema: localSchema,
  // A job can be tried here before it runs on a cluster.
  commandLanguage: sbatchLanguage,

  findErrors({ acceptJobsFromTheNetwork }, networkHost) {
    if (acceptJobsFromTheNetwork || networkHost === null) return [];
    const message = `must be true to listen on ${networkHost}: the local engine runs code of the callers on this host`;
    return [['acceptJobsFromTheNetwork', message]];
  },

  resolveIsolation: resolveLocalIsolation,

  createBackend({ name, system, dataFolder, workspaceFolder, isolation, protectedFiles, onError }) {
    const { memoryMb, outputKb, killGraceSeconds, cores = availableParallelism() } = system.engine;
    const { sandbox, account } = isolation;
    const directory = join(dataFolder, 'engines', name);
    const supervisor = createSupervisorClient({ logFile: `${directory}.supervisor.log` });
    const options = {
      directory,
      cores,
      memoryMb,
      outputKb,
      killGraceSeconds,
      supervisor,
      onError,
      ...(sandbox ? { sandbox } : {}),
      ...(account ? { account } : {}),
    };
    return {
      createEngine: () => createLocalEngine(options),
      workspaces: createWorkspaces(workspaceFolder, { protectedFiles, maxEntries: system.limits.files }),
      shell: null,
      // Observing local processes is cheap, so an idle system is polled as often as a busy one.
      maxPollMs: system.pollIntervalSeconds * 1000,
      // Its records are durable, so that no job gets lost.
      fullScanMs: 10_000,
    };
  },
};
