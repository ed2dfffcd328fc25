import type { MissingJob, MissingJobStatus } from '../engine.ts';
import { type RunCommand, requireOutput, toChunks } from './commands.ts';
import { readEndRecords } from './end-records.ts';
import type { QueueEntry } from './queue-reader.ts';
import { parseControllerConfig, showConfigCommand } from './scontrol.ts';
import { parseSqueueById, squeueByIdCommand } from './squeue.ts';

export interface MissingJobInspector {
  /** Remembers when each unfinished job was last in the queue. */
  recordQueue(queue: readonly QueueEntry[]): void;
  inspect(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, MissingJobStatus>>;
}

/**
 * A job that left the queue without starting either ended there (it was cancelled, or a node could not start it), or was
 * lost by a controller that was killed before it saved its state. Only a lost job may be submitted again. A job is lost
 * if one of these holds:
 *
 * - it was in the queue, or was not submitted yet, less than MinJobAge ago, so that squeue would still list it, had it
 *   ended;
 * - the controller has not assigned its id yet, or has assigned the id to another job.
 */
export function createMissingJobInspector(run: RunCommand, now: () => number): MissingJobInspector {
  /** By Slurm id. */
  const lastSeenAt = new Map<string, number>();

  async function findLost(notStarted: [string, MissingJob][], signal: AbortSignal): Promise<string[]> {
    const config = parseControllerConfig(requireOutput('scontrol', await run(showConfigCommand(), signal)));
    const currentNames = new Map<string, string>();
    for (const chunk of toChunks(notStarted)) {
      const refs = chunk.map(([, { ref }]) => ref);
      const jobs = parseSqueueById(await run(squeueByIdCommand(refs), signal));
      for (const { ref, name } of jobs) currentNames.set(ref, name);
    }
    const isLost = ([jobId, { ref, acceptedAt }]: [string, MissingJob]) =>
      now() - Math.max(lastSeenAt.get(ref) ?? 0, acceptedAt) < config.minJobAgeMs ||
      Number(ref) >= config.nextJobId ||
      (currentNames.get(ref) ?? jobId) !== jobId;
    return notStarted.filter(isLost).map(([jobId]) => jobId);
  }

  return {
    recordQueue(queue) {
      const seenAt = now();
      for (const { job, observation } of queue) {
        if (observation?.kind === 'finished') lastSeenAt.delete(job.ref);
        else lastSeenAt.set(job.ref, seenAt);
      }
    },

    async inspect(missing, signal) {
      const workspaces = new Map([...missing].map(([jobId, { workspace }]) => [jobId, workspace]));
      const statuses: Map<string, MissingJobStatus> = await readEndRecords(run, workspaces, signal);
      const notStarted = [...missing].filter(([jobId]) => statuses.get(jobId) === 'never_started');
      const lost = notStarted.length > 0 ? await findLost(notStarted, signal) : [];
      for (const jobId of lost) statuses.set(jobId, 'lost_by_system');
      return statuses;
    },
  };
}
