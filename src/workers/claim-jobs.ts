import { cancelledDueAt, claimDueJob, countJobsInEngine, listWaitingOwners } from '../store/jobs/job-queue.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

/** How long a user waits whose jobs the engine does not take because too many are in its queue. */
export const fullQueueRetryMs = 5000;
/** Fewer than are dispatched at the same time: a job of another user need not wait for the slow uploads of one. */
const maxDispatchedPerUser = 6;
/** How often a user's jobs are counted who has as many in the engine as allowed. */
const countIntervalMs = 1000;

export interface Claims {
  jobs: JobRecord[];
  /** When further jobs can be claimed; undefined if none are waiting. */
  nextAt: number | undefined;
}

/**
 * Claims jobs for the dispatcher, one user after the other: a user with many jobs does not delay the others, and cannot
 * fill the queue of the engine. The jobs of one user are claimed in the order of their submission.
 */
export function createJobClaims({ db, lease, system, maxJobsPerUser, now }: LeasedSystemDeps) {
  /** The user whose turn was the last one. */
  let lastOwner = '';
  /** Users whose jobs the engine does not take, and when one of them is tried again. */
  const retryTimes = new Map<string, number>();

  /** Claims in turns until there are `limit` jobs or none left. */
  async function claimInTurns(
    owners: readonly string[],
    limit: number,
    inProgress: readonly JobRecord[],
  ): Promise<{ jobs: JobRecord[]; isHeldBack: boolean }> {
    return await lease.transaction(async (tx) => {
      const jobs: JobRecord[] = [];
      const inEngine = new Map<string, number>();
      let isHeldBack = false;
      const turns = [...owners];
      while (jobs.length < limit) {
        const owner = turns.shift();
        if (owner === undefined) break;
        const dispatched = [...inProgress, ...jobs];
        const dispatchedOfOwner = dispatched.filter((job) => job.owner === owner).length;
        const retryAt = retryTimes.get(owner);
        // One try shows whether the queue is still full.
        const waitsForRetry = retryAt !== undefined && (retryAt > now() || dispatchedOfOwner > 0);
        const submitted = inEngine.get(owner) ?? (await countJobsInEngine(tx, system.name, owner));
        inEngine.set(owner, submitted);
        const isFull = submitted + dispatchedOfOwner >= maxJobsPerUser;
        isHeldBack ||= isFull;
        const excludedIds = dispatched.map(({ id }) => id);
        // Cancelled jobs are not submitted, so they need no place in the engine, and end soon.
        const onlyCancelled = isFull || waitsForRetry || dispatchedOfOwner >= maxDispatchedPerUser;
        const job = await claimDueJob(tx, system.name, owner, { now: now(), excludedIds, onlyCancelled });
        if (job === undefined) continue;
        jobs.push(job);
        turns.push(owner);
      }
      return { jobs, isHeldBack };
    });
  }

  return {
    async claim(limit: number, inProgress: readonly JobRecord[]): Promise<Claims> {
      const at = now();
      const excludedIds = inProgress.map(({ id }) => id);
      const waiting = (await listWaitingOwners(db, system.name, excludedIds)).map(({ owner, dueAt }) => ({
        owner,
        dueAt: dueAt === cancelledDueAt ? dueAt : Math.max(dueAt, retryTimes.get(owner) ?? 0),
      }));
      const dueOwners = waiting.filter(({ dueAt }) => dueAt <= at).map(({ owner }) => owner);
      const later = waiting.filter(({ dueAt }) => dueAt > at).map(({ dueAt }) => dueAt);
      if (dueOwners.length === 0) return { jobs: [], nextAt: later.length === 0 ? undefined : Math.min(...later) };
      const { jobs, isHeldBack } = await claimInTurns(orderTurns(dueOwners, lastOwner), limit, inProgress);
      lastOwner = jobs.at(-1)?.owner ?? lastOwner;
      if (isHeldBack) later.push(at + countIntervalMs);
      return { jobs, nextAt: later.length === 0 ? undefined : Math.min(...later) };
    },

    /**
     * The queue of the engine is full for this user. The user's jobs keep their order, and one of them at a time is tried
     * again later, until `resume` is called.
     */
    holdBack(owner: string): void {
      retryTimes.set(owner, now() + fullQueueRetryMs);
    },

    /** The engine has taken a job of this user. */
    resume(owner: string): void {
      retryTimes.delete(owner);
    },
  };
}

export type JobClaims = ReturnType<typeof createJobClaims>;

/** Orders users by their turns: the one after the last comes first. */
export function orderTurns(owners: readonly string[], lastOwner: string): string[] {
  const sorted = owners.toSorted();
  return [...sorted.filter((owner) => owner > lastOwner), ...sorted.filter((owner) => owner <= lastOwner)];
}
