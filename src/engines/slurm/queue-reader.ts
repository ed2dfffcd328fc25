import type { Observation } from '../../domain/jobs/transition.ts';
import { isJobName } from './commands.ts';
import { toObservation } from './observation.ts';
import type { SlurmJob } from './slurm-job.ts';
import { parseSqueueLine, withoutTimeUsed } from './squeue.ts';

/** A job of Bursar in the queue. The observation is null if the job's state is unknown. */
export interface QueueEntry {
  job: SlurmJob;
  observation: Observation | null;
}

/**
 * Parses the output of successive squeue calls, with a cache by line. Most lines of a long queue are unchanged between
 * two polls, and an entry depends on nothing but its line.
 */
export function createQueueReader(now: () => number): (output: string) => QueueEntry[] {
  const cache = new Map<string, QueueEntry | null>();

  function parseEntry(line: string): QueueEntry | null {
    const job = parseSqueueLine(line);
    const entry = job !== null && isJobName(job.name) ? { job, observation: toObservation(job, now()) } : null;
    cache.set(withoutTimeUsed(line), entry);
    return entry;
  }

  return (output) => {
    const lines = output.split('\n');
    // At this size most of the cache is stale. Clearing it is cheaper than searching for stale lines at each poll.
    if (cache.size > 2 * lines.length) cache.clear();
    const entries: QueueEntry[] = [];
    for (const line of lines) {
      const cached = cache.get(withoutTimeUsed(line));
      const entry = cached === undefined ? parseEntry(copyString(line)) : cached;
      if (entry !== null) entries.push(entry);
    }
    return entries;
  };
}

/** V8 substrings keep the whole string alive: one cached line would keep the output of all jobs in memory. */
const copyString = (text: string) => Buffer.from(text).toString();
