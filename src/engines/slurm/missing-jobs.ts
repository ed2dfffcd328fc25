import type { JobEnd } from '../../domain/jobs/job.ts';
import type { MissingJob, MissingJobStatus } from '../engine.ts';
import { type RunCommand, requireOutput, type SlurmCommand, toChunks } from './commands.ts';
import { outcomeForShellExitCode } from './observation.ts';
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
 * - it was in the queue less than MinJobAge ago, so that squeue would still list it, had it ended;
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
    const isLost = ([jobId, { ref }]: [string, MissingJob]) =>
      now() - (lastSeenAt.get(ref) ?? Number.NEGATIVE_INFINITY) < config.minJobAgeMs ||
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
      const statuses = new Map<string, MissingJobStatus>();
      const notStarted: [string, MissingJob][] = [];
      for (const chunk of toChunks([...missing], 200)) {
        const directories = chunk.map(([, { workspace }]) => workspace.directory);
        const output = requireOutput('bash', await run(readRecordsCommand(directories), signal));
        for (const line of output.split('\n')) {
          const [, index, code, startedAt, endedAt] = /^(\d+)(?: (\d{1,3}) (\d{1,10}) (\d{1,10}))?$/.exec(line) ?? [];
          const entry = chunk[Number(index)];
          // Ignore an incomplete end record: a power cut can leave an empty file.
          if (entry === undefined) continue;
          if (code === undefined) notStarted.push(entry);
          else statuses.set(entry[0], toJobEnd(Number(code), Number(startedAt), Number(endedAt)));
        }
      }
      for (const [jobId] of notStarted) statuses.set(jobId, 'never_started');
      const lost = notStarted.length > 0 ? await findLost(notStarted, signal) : [];
      for (const jobId of lost) statuses.set(jobId, 'lost_by_system');
      return statuses;
    },
  };
}

function toJobEnd(code: number, startSeconds: number, endSeconds: number): JobEnd {
  return {
    ...outcomeForShellExitCode(code),
    startedAt: startSeconds * 1000,
    endedAt: Math.max(startSeconds, endSeconds) * 1000,
    elapsedSeconds: Math.max(1, endSeconds - startSeconds),
  };
}

/**
 * Prints `index` for a job that never started, and `index code start end` for one that has an end record. The wrapper
 * creates `<directory>.started` before anything else of the job runs, and writes the end record into it. A job whose
 * workspace is absent prints nothing: the file system may be unmounted, so nothing is known.
 */
const readRecordsBash = `
index=0
for directory; do
  if [ -d "$directory" ]; then
    if [ ! -e "$directory.started" ]; then echo "$index"
    elif IFS= read -r end < "$directory.started/end"; then echo "$index $end"; fi 2> /dev/null
  fi
  index=$((index + 1))
done`;

function readRecordsCommand(directories: readonly string[]): SlurmCommand {
  return { argv: ['bash', '-c', readRecordsBash, 'bursar', ...directories] };
}
