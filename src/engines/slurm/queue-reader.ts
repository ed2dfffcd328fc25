import { refusalExitCode } from '../../domain/jobs/end-record.ts';
import { isJobName } from '../batch/run-command.ts';
import type { BatchJob } from '../batch/scheduler.ts';
import { toObservation } from './observation.ts';
import type { SlurmJob } from './slurm-job.ts';
import { parseSqueueLine, withoutTimeUsed } from './squeue.ts';

/**
 * Parses the output of successive squeue calls, with a cache by line. Most lines of a long queue are unchanged between
 * two polls, and an entry depends on nothing but its line.
 */
export function createQueueReader(now: () => number): (output: string) => BatchJob[] {
  const cache = new Map<string, BatchJob | null>();

  function parseEntry(line: string): BatchJob | null {
    const job = parseSqueueLine(line);
    const entry = job !== null && isJobName(job.name) ? toBatchJob(job, now()) : null;
    cache.set(withoutTimeUsed(line), entry);
    return entry;
  }

  return (output) => {
    const lines = output.split('\n');
    // At this size most of the cache is stale. Clearing it is cheaper than searching for stale lines at each poll.
    if (cache.size > 2 * lines.length) cache.clear();
    const entries: BatchJob[] = [];
    for (const line of lines) {
      const cached = cache.get(withoutTimeUsed(line));
      const entry = cached === undefined ? parseEntry(copyString(line)) : cached;
      if (entry !== null) entries.push(entry);
    }
    return entries;
  };
}

function toBatchJob(job: SlurmJob, now: number): BatchJob {
  const { ref, name, state, reason } = job;
  return {
    ref,
    name,
    observation: toObservation(job, now),
    isHeld: state === 'PENDING' && reason === 'JobHeldUser',
    wasCancelledHeld: state === 'CANCELLED' && reason === 'JobHeldUser',
    mayBeRefused: mayBeRefused(job),
  };
}

/**
 * A killed controller gives the ids of forgotten jobs again. A node that still knows the old job of the id refuses to start
 * the new one. Slurm then cancels the new one, or reports an exit code if the node has just killed the old one.
 */
function mayBeRefused({ state, exit, nodeList }: SlurmJob): boolean {
  if (nodeList === '') return false;
  return state === 'CANCELLED' || (state === 'FAILED' && exit.notRun === undefined && exit.code === refusalExitCode);
}

/** V8 substrings keep the whole string alive: one cached line would keep the output of all jobs in memory. */
const copyString = (text: string) => Buffer.from(text).toString();
