import type { Tx } from '../../store/database/handle.ts';
import { setSystemPause } from '../../store/systems/systems.ts';
import { executeAdminAction } from '../accounting/admin-actions.ts';
import type { IdempotentRequest } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';
import { requireSystem } from '../scope.ts';
import { type ReadSystemsDeps, readSystems } from './read-systems.ts';

/** Stops new submissions to a system or, with null, allows them again. */
export async function pauseSystem(
  deps: ReadSystemsDeps & { now(): number },
  actor: Actor,
  hpc: string,
  pause: { at: number; reason: string } | null,
  reason: string,
  request: IdempotentRequest | null,
) {
  const { db, systems, now } = deps;
  requireSystem(systems, hpc);
  const action = {
    actor,
    name: pause === null ? 'system.resume' : 'system.pause',
    subject: hpc,
    details: { reason },
    execute: async (tx: Tx) => {
      await setSystemPause(tx, hpc, pause);
      return await readSystems({ ...deps, db: tx }, hpc);
    },
  };
  return await executeAdminAction(db, request, action, now());
}
