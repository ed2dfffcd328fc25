import type { Observation } from '../../domain/jobs/transition.ts';
import type { BatchScheduler } from './scheduler.ts';

const maxRetryDelayMs = 60_000;
/** Further jobs are queried at the next poll. */
const maxJobsPerQuery = 500;

/**
 * Reads the ends of jobs that have left the queue. `missing` maps job ids to refs. Makes at most one query a call, for any
 * number of jobs. A job whose end is not reported yet is queried again after 2, 4, 8… 60 s; a reported end is cached. Never
 * throws: after a failed query the ends are read at a later call.
 */
export function createEndReader(
  { readEnds }: Pick<BatchScheduler, 'readEnds'>,
  now: () => number,
): (missing: ReadonlyMap<string, string>, signal: AbortSignal) => Promise<Observation[]> {
  const ends = new Map<string, Observation>();
  const retries = new Map<string, { delayMs: number; nextAt: number }>();

  async function query(missing: ReadonlyMap<string, string>, refs: string[], signal: AbortSignal): Promise<void> {
    if (readEnds === null || refs.length === 0) return;
    for (const ref of refs) {
      const delayMs = Math.min((retries.get(ref)?.delayMs ?? 1000) * 2, maxRetryDelayMs);
      retries.set(ref, { delayMs, nextAt: now() + delayMs });
    }
    for (const observation of await readEnds(refs, signal)) {
      const { kind, jobId, ref } = observation;
      // The name must match too: a controller that crashed may have given the ref to another job.
      if (kind === 'finished' && missing.get(jobId) === ref) ends.set(ref, observation);
    }
  }

  return async (missing, signal) => {
    const refs = new Set(missing.values());
    for (const ref of ends.keys()) if (!refs.has(ref)) ends.delete(ref);
    for (const ref of retries.keys()) if (!refs.has(ref)) retries.delete(ref);
    const due = [...refs].filter((ref) => !ends.has(ref) && now() >= (retries.get(ref)?.nextAt ?? 0));
    await query(missing, due.slice(0, maxJobsPerQuery), signal).catch(() => undefined);
    return [...ends.values()];
  };
}
