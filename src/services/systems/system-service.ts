import type { IdempotentRequest } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';
import { pauseSystem } from './pause-system.ts';
import { type ReadSystemsDeps, readSystems } from './read-systems.ts';

export type SystemService = ReturnType<typeof createSystemService>;

export function createSystemService(deps: ReadSystemsDeps & { now(): number }) {
  return {
    read: (hpc?: string) => readSystems(deps, hpc),
    pause: (actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null) =>
      pauseSystem(deps, actor, hpc, { at: deps.now(), reason }, reason, request),
    resume: (actor: Actor, hpc: string, reason: string, request: IdempotentRequest | null) =>
      pauseSystem(deps, actor, hpc, null, reason, request),
  };
}
