import type { EngineJob } from '../engine.ts';

/** The cores a job occupies. One that asks for more than there are gets all there are, and runs alone. */
export function coresNeeded(job: Pick<EngineJob, 'nodes' | 'coresPerNode'>, cores: number): number {
  return Math.min(job.nodes * job.coresPerNode, cores);
}

/**
 * The jobs to start now. First come, first served: a job that does not fit holds up the ones behind it, so that a
 * large one is never passed by small ones for ever.
 */
export function whatFits<T extends { cores: number }>(queue: readonly T[], freeCores: number): T[] {
  let left = freeCores;
  const firstThatDoesNot = queue.findIndex(({ cores }) => {
    left -= cores;
    return left < 0;
  });
  return firstThatDoesNot < 0 ? [...queue] : queue.slice(0, firstThatDoesNot);
}
