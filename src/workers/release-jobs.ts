import type { LeasedSystem } from './system-context.ts';

/** A release that fails is repeated by the watcher, who sees the job held. */
export async function release({ engine, system, log }: LeasedSystem, refs: Map<string, string>, signal: AbortSignal) {
  await engine.release(refs, signal).catch((error) => {
    log.warn({ err: error, hpc: system.name, jobIds: [...refs.keys()] }, 'jobs not released yet');
  });
}
