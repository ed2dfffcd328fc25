import type { JobEnd } from '../../domain/jobs/job.ts';
import type { MissingJob, Trace } from '../engine.ts';
import { chunked, outputOf, type RunCommand, type SlurmCommand } from './commands.ts';
import { judgeCode } from './observation.ts';
import type { QueueEntry } from './queue-reader.ts';
import { parseMemory, showConfigCommand } from './scontrol.ts';
import { parseSqueueById, squeueByIdCommand } from './squeue.ts';

/** Finds out what has become of jobs that Slurm should have and does not mention. */
export interface Traces {
  /** Takes note of what is in the queue. */
  note(queue: readonly QueueEntry[]): void;
  find(missing: ReadonlyMap<string, MissingJob>, signal: AbortSignal): Promise<Map<string, Trace>>;
}

/**
 * A job that is not in the queue any more, and never began, has come to an end there (somebody cancelled it, a node could
 * not start it), or the controller was killed before it had saved what it had accepted. Only then may the job be submitted
 * anew, so that one of these must be proved:
 *
 * - it was in the queue so short a while ago that it would still be there, had it ended meanwhile;
 * - the controller has not given its id to anybody yet, or has given it to somebody else.
 */
export function createTraces(run: RunCommand, now: () => number): Traces {
  /** When a job that was not over was last seen, by its id in Slurm. */
  const seenAt = new Map<string, number>();

  async function forgotten(unbegun: [string, MissingJob][], signal: AbortSignal): Promise<string[]> {
    const memory = parseMemory(outputOf('scontrol', await run(showConfigCommand(), signal)));
    const names = new Map<string, string>();
    for (const part of chunked(unbegun)) {
      const refs = part.map(([, { ref }]) => ref);
      for (const { ref, name } of parseSqueueById(await run(squeueByIdCommand(refs), signal))) names.set(ref, name);
    }
    const isForgotten = ([jobId, { ref }]: [string, MissingJob]) =>
      now() - (seenAt.get(ref) ?? Number.NEGATIVE_INFINITY) < memory.keepsMs ||
      Number(ref) >= memory.nextId ||
      (names.get(ref) ?? jobId) !== jobId;
    return unbegun.filter(isForgotten).map(([jobId]) => jobId);
  }

  return {
    note(queue) {
      const at = now();
      for (const { job, observation } of queue) {
        if (observation?.kind === 'finished') seenAt.delete(job.ref);
        else seenAt.set(job.ref, at);
      }
    },

    async find(missing, signal) {
      const traces = new Map<string, Trace>();
      const unbegun: [string, MissingJob][] = [];
      for (const part of chunked([...missing], 200)) {
        const folders = part.map(([, { workspace }]) => workspace.directory);
        for (const line of outputOf('bash', await run(lookCommand(folders), signal)).split('\n')) {
          const [, index, code, began, ended] = /^(\d+)(?: (\d{1,3}) (\d{1,10}) (\d{1,10}))?$/.exec(line) ?? [];
          const job = part[Number(index)];
          // What is not whole was never written: a machine that lost its power can leave an empty file.
          if (job === undefined) continue;
          if (code === undefined) unbegun.push(job);
          else traces.set(job[0], endOf(Number(code), Number(began), Number(ended)));
        }
      }
      for (const [jobId] of unbegun) traces.set(jobId, 'unbegun');
      if (unbegun.length > 0) for (const jobId of await forgotten(unbegun, signal)) traces.set(jobId, 'forgotten');
      return traces;
    },
  };
}

function endOf(code: number, began: number, ended: number): JobEnd {
  const elapsedSeconds = Math.max(1, ended - began);
  return { ...judgeCode(code), startedAt: began * 1000, endedAt: Math.max(began, ended) * 1000, elapsedSeconds };
}

/**
 * The wrapper makes a folder before anything else of a job runs, and runs nothing when it is there; how it ended it writes
 * into it. A file system that is out of reach shows neither that nor the workspace: then nobody knows.
 */
const look = `
index=0
for folder; do
  if [ -d "$folder" ]; then
    if [ ! -e "$folder.started" ]; then echo "$index"
    elif IFS= read -r end < "$folder.started/end"; then echo "$index $end"; fi 2> /dev/null
  fi
  index=$((index + 1))
done`;

function lookCommand(folders: readonly string[]): SlurmCommand {
  return { argv: ['bash', '-c', look, 'bursar', ...folders] };
}
