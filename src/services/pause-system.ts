import { setSystemPause } from '../store/systems.ts';
import type { Db } from '../store/tables.ts';
import type { Actor } from './actor.ts';
import { administer } from './administration.ts';
import { systemNamed } from './places.ts';
import { type ReadSystemsDeps, readSystems } from './read-systems.ts';

/** Keeps a system from taking submissions, or (with null) lets it take them again. */
export async function pauseSystem(
  deps: ReadSystemsDeps & { now(): number },
  actor: Actor,
  hpc: string,
  pause: { at: number; reason: string } | null,
  reason: string,
) {
  const { db, systems, now } = deps;
  systemNamed(systems, hpc);
  const act = {
    actor,
    act: pause === null ? 'system.resume' : 'system.pause',
    subject: hpc,
    details: { reason },
    carryOut: (tx: Db) => setSystemPause(tx, hpc, pause),
  };
  await administer(db, null, act, now());
  return await readSystems(deps, hpc);
}
