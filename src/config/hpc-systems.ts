import type { HpcSystem } from '../domain/systems/system.ts';
import type { Config } from './schema.ts';

/** Converts the configured systems to domain objects, by name. */
export function toHpcSystems(config: Config): ReadonlyMap<string, HpcSystem> {
  return new Map(
    Object.entries(config.systems).map(([name, system]) => [
      name,
      { ...system, name, engine: system.engine.kind } as HpcSystem,
    ]),
  );
}
