import type { HpcSystem } from '../domain/systems/system.ts';
import { engineOf } from '../engines/registry.ts';
import type { Config } from './schema.ts';

/** Converts the configured systems to domain objects, by name. */
export function toHpcSystems(config: Config): ReadonlyMap<string, HpcSystem> {
  return new Map(
    Object.entries(config.systems).map(([name, system]) => {
      const defaults = { nodes: 1, coresPerNode: 1, runtimeHours: system.defaultRuntimeHours };
      return [name, { ...system, name, defaults, commandLanguage: engineOf(system).commandLanguage } as HpcSystem];
    }),
  );
}
