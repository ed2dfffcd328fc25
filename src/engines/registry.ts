import type { EngineDefinition } from './definition.ts';
import { localEngine } from './local/index.ts';
import { slurmEngine } from './slurm/index.ts';

/** All engines, by the values of `engine.kind`. The first one is the default. */
export const engines: Readonly<Record<string, EngineDefinition>> = {
  local: localEngine,
  slurm: slurmEngine,
};

/** The definition of the engine of a system. The configuration has no other kinds. */
export function engineOf({ engine: { kind } }: { engine: { kind: string } }): EngineDefinition {
  const definition = engines[kind];
  if (definition === undefined) throw new Error(`there is no engine ${kind}`);
  return definition;
}
