import { createScheduler, type Scheduler } from '../../simulation/scheduler.ts';
import { resolveIsolation } from '../../src/composition/isolation.ts';
import { createSystemBackend } from '../../src/composition/systems.ts';
import type { Config } from '../../src/config/schema.ts';
import type { SystemIsolation } from '../../src/engines/definition.ts';
import type { LocalSettings } from '../../src/engines/local/schema.ts';
import { startProcess } from '../engines/simulated/process-node.ts';

/** Independent of the machine, which may have one core only: tests wait for several running jobs. */
const defaultCores = 16;

/** By data folder and system. They outlive the servers, as a real scheduler does. */
const schedulers = new Map<string, Map<string, Scheduler>>();

/**
 * Gives local systems the simulated engine, which runs a job as a plain process, without the records and sandboxes of
 * the local engine. Files, limits and intervals are those of the configuration.
 */
export const createSimulatedBackend: typeof createSystemBackend = (name, options, metrics, tracing) => {
  const backend = createSystemBackend(name, options, metrics, tracing);
  const { engine } = options.settings;
  if (engine.kind !== 'local') return backend;
  const { cores = defaultCores } = engine as LocalSettings;
  const ofFolder = schedulers.get(options.dataFolder) ?? new Map<string, Scheduler>();
  schedulers.set(options.dataFolder, ofFolder);
  const scheduler = ofFolder.get(name) ?? createScheduler({ coresPerNode: cores, startProgram: startProcess });
  ofFolder.set(name, scheduler);
  return { ...backend, createEngine: () => scheduler.createEngine() };
};

/** Simulated systems count as isolated, on every host. The probe of bubblewrap takes longer than the rest of a start. */
export function findSimulatedIsolation(config: Config): Map<string, SystemIsolation> {
  const systems = Object.entries(config.systems);
  if (systems.some(([, { engine }]) => engine.kind !== 'local')) return resolveIsolation(config);
  return new Map(systems.map(([name]) => [name, { inEffect: { kind: 'bubblewrap' } }]));
}

/** The scheduler of a system, for tests that let it fail. */
export function findScheduler(dataFolder: string, system: string): Scheduler {
  const scheduler = schedulers.get(dataFolder)?.get(system);
  if (scheduler === undefined) throw new Error(`${dataFolder} has no simulated system ${system}`);
  return scheduler;
}

/** Ends the jobs of a data folder that is about to be removed. */
export async function stopSimulatedSystems(dataFolder: string): Promise<void> {
  const ofFolder = schedulers.get(dataFolder);
  schedulers.delete(dataFolder);
  await Promise.all([...(ofFolder?.values() ?? [])].map((scheduler) => scheduler.stopAll()));
}
