import { publicJob, toJobReference } from '../../contract/job.ts';
import { BursarError } from '../../domain/errors.ts';
import { insertEvent } from '../../store/events/events.ts';
import { postponeJob, setDelay } from '../../store/jobs/job-queue.ts';
import { type JobRecord, lockJobsVersion } from '../../store/jobs/jobs.ts';
import { fullQueueRetryMs, type JobClaims } from './claim-jobs.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

const minRetryDelayMs = 1000;
const maxRetryDelayMs = 60_000;

/**
 * Tracks jobs that could not be submitted. Each is retried with a growing delay: a permanent error may concern the system
 * rather than the job, and an operator can repair that. The owner and the operators are told why the job waits: at once if
 * the error is permanent, and after `delayAlarmMs` if it is transient. If the queue of the engine is full, the owner of the
 * job is held back instead of the job: otherwise users with more jobs would make more tries, and get every place that
 * becomes free.
 */
export function createDispatchFailures(deps: LeasedSystemDeps, claims: Pick<JobClaims, 'holdBack' | 'resume'>) {
  const { lease, system, delayAlarmMs, now, log } = deps;
  /** By the id of the job. */
  const failures = new Map<number, { since: number; count: number }>();

  /** Stores why the job waits, and an event the first time. */
  async function storeDelay(job: JobRecord, reason: string, dueAt: number, hasReachedEngine: boolean): Promise<void> {
    const at = now();
    const isNew = await lease.transaction(async (tx) => {
      await lockJobsVersion(tx, job.owner, { increment: false });
      await postponeJob(tx, job, { dueAt, hasReachedEngine });
      if (!(await setDelay(tx, job.id, { at, reason }))) return false;
      const data = { ...toJobReference(job), stage: publicJob(job, system.stages).stage, reason };
      const { owner: userId, publicJson: jobJson } = job;
      await insertEvent(tx, { userId, job: job.id, jobJson, kind: 'job.delayed', data, at });
      return true;
    });
    if (isNew) deps.publish(job.owner);
  }

  return {
    /** Lets the dispatcher retry the job later. */
    async postpone(job: JobRecord, error: unknown, hasReachedEngine: boolean): Promise<void> {
      const { since, count } = failures.get(job.id) ?? { since: now(), count: 0 };
      failures.set(job.id, { since, count: count + 1 });
      const isFull = error instanceof BursarError && error.code === 'queue_full';
      const delayMs = isFull ? fullQueueRetryMs : Math.min(maxRetryDelayMs, minRetryDelayMs * 2 ** Math.min(count, 10));
      log.warn({ err: error, hpc: system.name, jobId: job.jobId, delayMs }, 'job submission failed, will retry');
      if (isFull) claims.holdBack(job.owner);
      const dueAt = isFull ? job.dueAt : now() + delayMs;
      // An engine with a full queue has refused the job. Waiting for a place must not use up the tries of a job.
      const isTry = hasReachedEngine && !isFull;
      if (isTransient(error) && now() - since < delayAlarmMs) {
        await lease.transaction((tx) => postponeJob(tx, job, { dueAt, hasReachedEngine: isTry }));
      } else await storeDelay(job, toReason(error), dueAt, isTry);
    },

    /** The job was submitted, or has ended. Only a submission shows that the queue of the engine is not full. */
    forget(job: JobRecord, isSubmitted: boolean): void {
      failures.delete(job.id);
      if (isSubmitted) claims.resume(job.owner);
    },
  };
}

const isTransient = (error: unknown) => error instanceof BursarError && error.transient;

const toReason = (error: unknown) =>
  error instanceof BursarError ? error.message : 'Bursar has an internal error. Its operators find it in the log.';
