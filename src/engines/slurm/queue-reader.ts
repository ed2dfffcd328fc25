import type { Observation } from '../../domain/jobs/transition.ts';
import { isJobName } from './commands.ts';
import { toObservation } from './observation.ts';
import type { SlurmJob } from './slurm-job.ts';
import { parseSqueueLine, withoutTimeUsed } from './squeue.ts';

/** A job of Bursar's in the queue, and what that means; null when Slurm says something that is not known here. */
export interface QueueEntry {
  job: SlurmJob;
  observation: Observation | null;
}

/**
 * Reads what squeue prints, look after look. From one look to the next most lines of a long queue stay the same, and what
 * a line means follows from nothing but the line: so it is worked out when the line is new, and kept. What the books make
 * of it is not kept here.
 */
export function createQueueReader(now: () => number): (output: string) => QueueEntry[] {
  const kept = new Map<string, QueueEntry | null>();

  function understand(line: string): QueueEntry | null {
    const job = parseSqueueLine(line);
    const entry = job !== null && isJobName(job.name) ? { job, observation: toObservation(job, now()) } : null;
    kept.set(withoutTimeUsed(line), entry);
    return entry;
  }

  return (output) => {
    const lines = output.split('\n');
    // Most of it is of lines that are gone: cheaper than to look for them each time.
    if (kept.size > 2 * lines.length) kept.clear();
    const entries: QueueEntry[] = [];
    for (const line of lines) {
      const known = kept.get(withoutTimeUsed(line));
      const entry = known === undefined ? understand(copyOf(line)) : known;
      if (entry !== null) entries.push(entry);
    }
    return entries;
  };
}

/** A part of a string keeps the whole of it in memory: one line that stays would keep the output of all jobs. */
const copyOf = (text: string) => Buffer.from(text).toString();
