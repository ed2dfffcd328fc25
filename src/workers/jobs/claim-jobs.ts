import {
  cancelledDueAt,
  claimDueJob,
  countJobsInEngine,
  listOwnersOfCancelledSubmissions,
  listWaitingOwners,
  type WaitingOwner,
} from '../../store/jobs/job-queue.ts';
import type { JobRecord } from '../../store/jobs/jobs.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

/** How long a user waits whose jobs the engine does not take because too many are in its queue. */
export const fullQueueRetryMs = 5000;
/** Fewer than are dispatched at the same time: a job of another user need not wait for the slow uploads of one. */
const maxDispatchedPerUser = 12;
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

  /** Whether a user's jobs cannot be submitted at present, unless to be ended. */
  function mustWait(owner: string, dispatchedOfOwner: number): boolean {
    const retryAt = retryTimes.get(owner);
    // One try shows whether the queue is still full.
    const waitsForRetry = retryAt !== undefined && (retryAt > now() || dispatchedOfOwner > 0);
    return waitsForRetry || dispatchedOfOwner >= maxDispatchedPerUser;
  }

  /** Claims in turns until there are `limit` jobs or none left. */
  async function claimInTurns(
    owners: readonly WaitingOwner[],
    hasCancelled: (owner: WaitingOwner) => boolean,
    limit: number,
    inProgress: readonly JobRecord[],
  ): Promise<{ jobs: JobRecord[]; isHeldBack: boolean }> {
    return await lease.transaction(async (tx) => {
      const jobs: JobRecord[] = [];
      // Once for all users: hundreds of them may wait although they have as many jobs in the engine as allowed.
      const ownerIds = owners.map(({ owner }) => owner);
      const inEngine = await countJobsInEngine(tx, system.name, ownerIds);
      let isHeldBack = false;
      const turns = [...owners];
      while (jobs.length < limit) {
        const turn = turns.shift();
        if (turn === undefined) break;
        const { owner } = turn;
        const dispatched = [...inProgress, ...jobs];
        const dispatchedOfOwner = countJobsOf(owner, dispatched);
        const isFull = (inEngine.get(owner) ?? 0) + dispatchedOfOwner >= maxJobsPerUser;
        isHeldBack ||= isFull;
        const excludedIds = dispatched.map(({ id }) => id);
        // Cancelled jobs are not submitted, so they need no place in the engine, and end soon.
        const onlyCancelled = isFull || mustWait(owner, dispatchedOfOwner);
        if (onlyCancelled && !hasCancelled(turn)) continue;
        const job = await claimDueJob(tx, system.name, owner, { now: now(), excludedIds, onlyCancelled });
        if (job === undefined) continue;
        jobs.push(job);
        turns.push(turn);
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
      const dueOwners = waiting.filter(({ dueAt }) => dueAt <= at);
      const later = waiting.filter(({ dueAt }) => dueAt > at).map(({ dueAt }) => dueAt);
      const withCancelled = await listOwnersOfCancelledSubmissions(db, system.name);
      const hasCancelled = ({ owner, dueAt }: WaitingOwner) => dueAt === cancelledDueAt || withCancelled.has(owner);
      // Without this, each new job of a user who must wait would begin a transaction.
      const candidates = dueOwners.filter(
        (waiter) => hasCancelled(waiter) || !mustWait(waiter.owner, countJobsOf(waiter.owner, inProgress)),
      );
      if (candidates.length === 0) return { jobs: [], nextAt: later.length === 0 ? undefined : Math.min(...later) };
      const { jobs, isHeldBack } = await claimInTurns(
        orderTurns(candidates, lastOwner),
        hasCancelled,
        limit,
        inProgress,
      );
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

const countJobsOf = (owner: string, jobs: readonly JobRecord[]) => jobs.filter((job) => job.owner === owner).length;

/** Orders users by their turns: the one after the last comes first. */
function orderTurns(waiting: readonly WaitingOwner[], lastOwner: string): WaitingOwner[] {
  const sorted = waiting.toSorted((a, b) => (a.owner < b.owner ? -1 : 1));
  return [...sorted.filter(({ owner }) => owner > lastOwner), ...sorted.filter(({ owner }) => owner <= lastOwner)];
}
