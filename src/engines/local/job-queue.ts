import type { EngineJob } from '../engine.ts';

interface OwnedJob {
  /** Null if the owner is not known. */
  job: Pick<EngineJob, 'owner'> | null;
}

export type JobQueue<T extends OwnedJob> = ReturnType<typeof createJobQueue<T>>;

/** Queued jobs, by owner. The owners take turns; the jobs of one owner stay in the order in which they were added. */
export function createJobQueue<T extends OwnedJob>() {
  const queues = new Map<string, Set<T>>();
  const lastTurns = new Map<string, number>();
  let turn = 0;

  return {
    add(job: T): void {
      const owner = ownerOf(job);
      queues.set(owner, (queues.get(owner) ?? new Set()).add(job));
    },

    delete(job: T): void {
      const owner = ownerOf(job);
      const jobs = queues.get(owner);
      jobs?.delete(job);
      if (jobs?.size === 0) queues.delete(owner);
    },

    has: (job: T) => queues.get(ownerOf(job))?.has(job) ?? false,

    /** Records that the owner of this job had a turn just now. */
    recordTurn(job: T): void {
      lastTurns.set(ownerOf(job), ++turn);
    },

    /**
     * Yields the jobs that are `eligible`, in the order in which they should start. It begins with the owner whose last turn
     * was longest ago; owners without a turn so far come first.
     */
    *inTurns(eligible: (job: T) => boolean): Generator<T> {
      const lastTurnOf = (owner: string) => lastTurns.get(owner) ?? 0;
      let waiting = [...queues]
        .sort(([a], [b]) => lastTurnOf(a) - lastTurnOf(b))
        .map(([, jobs]) => jobs.values().filter(eligible));
      while (waiting.length > 0) {
        const remaining: typeof waiting = [];
        for (const jobs of waiting) {
          const next = jobs.next();
          if (next.done) continue;
          yield next.value;
          remaining.push(jobs);
        }
        waiting = remaining;
      }
    },
  };
}

const ownerOf = ({ job }: OwnedJob) => job?.owner ?? '';
