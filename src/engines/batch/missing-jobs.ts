import type { MissingJob, MissingJobStatus } from '../engine.ts';
import { readEndRecords } from './end-records.ts';
import type { RunCommand } from './run-command.ts';
import type { BatchJob, BatchScheduler } from './scheduler.ts';

/** Much longer than schedulers list jobs that have ended. After that it does not matter when a job was last listed. */
const maxUnseenMs = 24 * 3_600_000;

export interface MissingJobInspector {
  /** Remembers that a job was in the queue, or was not submitted yet, at this time. */
  recordJob(name: string, ref: string, seenAt: number): void;
  /** Remembers when each unfinished job was last in the queue. */
  recordQueue(queue: readonly BatchJob[]): void;
  inspect(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, MissingJobStatus>>;
}

/**
 * A job that left the queue without starting either ended there (it was cancelled, or a node could not start it), or was
 * forgotten by a controller that was killed before it saved its state. Only a forgotten job may be submitted again.
 */
export function createMissingJobInspector(
  run: RunCommand,
  scheduler: Pick<BatchScheduler, 'findForgotten'>,
  now: () => number,
): MissingJobInspector {
  /** By ref. The name is compared too: a controller that was killed can assign a ref twice. */
  const lastSeen = new Map<string, { name: string; at: number }>();

  function lastSeenAt(jobId: string, { ref, acceptedAt }: MissingJob): number {
    const seen = lastSeen.get(ref);
    return Math.max(seen?.name === jobId ? seen.at : 0, acceptedAt);
  }

  function recordJob(name: string, ref: string, seenAt: number): void {
    const seen = lastSeen.get(ref);
    if (seen?.name === name) seen.at = seenAt;
    else lastSeen.set(ref, { name, at: seenAt });
  }

  return {
    recordJob,

    recordQueue(queue) {
      const seenAt = now();
      for (const { name, ref, observation } of queue) {
        if (observation?.kind === 'finished') lastSeen.delete(ref);
        else recordJob(name, ref, seenAt);
      }
      if (lastSeen.size <= queue.length) return;
      for (const [ref, { at }] of lastSeen) if (seenAt - at > maxUnseenMs) lastSeen.delete(ref);
    },

    async inspect(missing, signal) {
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
