import type { Observation } from '../../domain/jobs/transition.ts';
import type { MissingJob, MissingJobStatus } from '../engine.ts';
import { readEndRecords } from './end-records.ts';
import type { RunCommand } from './run-command.ts';
import type { BatchJob, BatchScheduler } from './scheduler.ts';

/** Much longer than schedulers list jobs that have ended. After that it does not matter when a job was last listed. */
const maxUnseenMs = 24 * 3_600_000;

/**
 * A job that left the queue without starting either ended there (it was cancelled, or a node could not start it), or was
 * forgotten by a controller that was killed before it saved its state. Only a forgotten job may be submitted again.
 */
export function createMissingJobInspector(
  run: RunCommand,
  scheduler: Pick<BatchScheduler, 'findForgotten'>,
  now: () => number,
) {
  /** By ref. The name is compared too: a controller that was killed can assign a ref twice. */
  const lastSeen = new Map<string, { name: string; at: number }>();

  function lastSeenAt(jobId: string, { ref, acceptedAt }: MissingJob): number {
    const seen = lastSeen.get(ref);
    return Math.max(seen?.name === jobId ? seen.at : 0, acceptedAt);
  }

  /** Remembers that a job was in the queue, or was not submitted yet, at this time. */
  function recordJob(name: string, ref: string, seenAt: number): void {
    const seen = lastSeen.get(ref);
    if (seen?.name === name) seen.at = seenAt;
    else lastSeen.set(ref, { name, at: seenAt });
  }

  return {
    recordJob,

    /** Remembers when each unfinished job was last in the queue. */
    recordQueue(queue: readonly BatchJob[]): void {
      const seenAt = now();
      for (const { name, ref, observation } of queue) {
        if (observation?.kind === 'finished') lastSeen.delete(ref);
        else recordJob(name, ref, seenAt);
      }
      if (lastSeen.size <= queue.length) return;
      for (const [ref, { at }] of lastSeen) if (seenAt - at > maxUnseenMs) lastSeen.delete(ref);
    },

    async inspect(
      missing: ReadonlyMap<string, MissingJob>,
      signal: AbortSignal,
    ): Promise<Map<string, MissingJobStatus>> {
      const workspaces = new Map([...missing].map(([jobId, { workspace }]) => [jobId, workspace]));
      const records = await readEndRecords(run, workspaces, signal);
      const withoutEnd = [...missing].filter(([jobId]) => typeof records.get(jobId) === 'string');
      const unlisted = withoutEnd.map(([jobId, job]) => ({ jobId, ref: job.ref, lastSeenAt: lastSeenAt(jobId, job) }));
      const forgotten = unlisted.length > 0 ? await scheduler.findForgotten(unlisted, signal) : new Set();
      const statuses = new Map<string, MissingJobStatus>();
      for (const [jobId, record] of records) statuses.set(jobId, { record, isForgotten: forgotten.has(jobId) });
      return statuses;
    },
  };
}

const maxRetryDelayMs = 60_000;
/** Further jobs are queried at the next poll. */
const maxJobsPerQuery = 500;

/**
 * Reads the ends of jobs that have left the queue. `missing` maps job ids to refs. Makes at most one query per call, for any
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
