import { chunks } from '../../domain/chunks.ts';
import type { MissingJob, MissingJobStatus } from '../engine.ts';
import { type RunCommand, requireOutput } from './commands.ts';
import { readEndRecords } from './end-records.ts';
import type { QueueEntry } from './queue-reader.ts';
import { parseControllerConfig, showConfigCommand } from './scontrol.ts';
import { parseSqueueById, squeueByIdCommand } from './squeue.ts';

/** Much longer than any MinJobAge. After that it does not matter when a job was last in the queue. */
const maxUnseenMs = 24 * 3_600_000;

export interface MissingJobInspector {
  /** Remembers that a job was in the queue, or was not submitted yet, at this time. */
  recordJob(name: string, ref: string, seenAt: number): void;
  /** Remembers when each unfinished job was last in the queue. */
  recordQueue(queue: readonly QueueEntry[]): void;
  inspect(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, MissingJobStatus>>;
}

/**
 * A job that left the queue without starting either ended there (it was cancelled, or a node could not start it), or was
 * forgotten by a controller that was killed before it saved its state. Only a forgotten job may be submitted again. A job
 * is forgotten if one of these holds:
 *
 * - it was in the queue, or was not submitted yet, less than MinJobAge ago, so that squeue would still list it, had it
 *   ended;
 * - the controller has not assigned its id yet, or has assigned the id to another job.
 */
export function createMissingJobInspector(run: RunCommand, now: () => number): MissingJobInspector {
  /** By Slurm id. The name is compared too: a controller that was killed can assign an id twice. */
  const lastSeen = new Map<string, { name: string; at: number }>();

  async function findForgotten(jobs: [string, MissingJob][], signal: AbortSignal): Promise<Set<string>> {
    const config = parseControllerConfig(requireOutput('scontrol', await run(showConfigCommand(), signal)));
    const currentNames = new Map<string, string>();
    for (const chunk of chunks(jobs)) {
      const refs = chunk.map(([, { ref }]) => ref);
      const current = parseSqueueById(await run(squeueByIdCommand(refs), signal));
      for (const { ref, name } of current) currentNames.set(ref, name);
    }
    const isForgotten = ([jobId, { ref, acceptedAt }]: [string, MissingJob]) => {
      const currentName = currentNames.get(ref);
      if (currentName !== undefined) return currentName !== jobId;
      const seen = lastSeen.get(ref);
      const existedAt = Math.max(seen?.name === jobId ? seen.at : 0, acceptedAt);
      return now() - existedAt < config.minJobAgeMs || Number(ref) >= config.nextJobId;
    };
    return new Set(jobs.filter(isForgotten).map(([jobId]) => jobId));
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
      for (const { job, observation } of queue) {
        if (observation?.kind === 'finished') lastSeen.delete(job.ref);
        else recordJob(job.name, job.ref, seenAt);
      }
      if (lastSeen.size <= queue.length) return;
      for (const [ref, { at }] of lastSeen) if (seenAt - at > maxUnseenMs) lastSeen.delete(ref);
    },

    async inspect(missing, signal) {
      const workspaces = new Map([...missing].map(([jobId, { workspace }]) => [jobId, workspace]));
      const records = await readEndRecords(run, workspaces, signal);
      const withoutEnd = [...missing].filter(([jobId]) => typeof records.get(jobId) === 'string');
      const forgotten = withoutEnd.length > 0 ? await findForgotten(withoutEnd, signal) : new Set();
      const statuses = new Map<string, MissingJobStatus>();
      for (const [jobId, record] of records) statuses.set(jobId, { record, isForgotten: forgotten.has(jobId) });
      return statuses;
    },
  };
}
