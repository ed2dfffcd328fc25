import { coalesce } from '../../shell/coalesce.ts';
import type { BatchJob, BatchScheduler } from './scheduler.ts';

/**
 * How long after the start of a submission its response counts as proof that a ref belongs to a job. A controller that is
 * killed can give the ref to another job, and no check excludes that it does so right before the release. This is about as
 * long as listing the jobs takes on a busy system, and shorter than most restarts of a controller.
 */
const trustSubmissionMs = 1000;

/** While many jobs are submitted, each command releases some of them. A single job is released at once. */
const minIntervalMs = 100;

interface Submission {
  jobId: string;
  ref: string;
  /** When the command was started. */
  submittedAt: number;
  isReleased: boolean;
}

/**
 * Releases held jobs: one command for all jobs that wait for it. Of a job that was just submitted, the ref is known. For
 * every other job, the list must confirm that the ref still belongs to it and that it is held.
 */
export function createReleaser(
  scheduler: Pick<BatchScheduler, 'release'>,
  listJobs: (signal: AbortSignal) => Promise<BatchJob[]>,
  now: () => number,
) {
  /** By ref: if a ref is given again, the last response counts. */
  const submissions = new Map<string, Submission>();

  function removeOldSubmissions(): void {
    for (const [ref, { submittedAt }] of submissions) {
      const ageMs = now() - submittedAt;
      // Negative if the clock was set back: nobody knows how much time has passed.
      if (ageMs < 0 || ageMs >= trustSubmissionMs) submissions.delete(ref);
    }
  }

  async function releaseAll(refs: ReadonlyMap<string, string>, signal: AbortSignal): Promise<void> {
    removeOldSubmissions();
    const proven: Submission[] = [];
    const unproven = new Map<string, string>();
    for (const [jobId, ref] of refs) {
      const submission = submissions.get(ref);
      if (submission?.jobId !== jobId) unproven.set(jobId, ref);
      // The watcher may ask for a job that was released after its poll.
      else if (!submission.isReleased) proven.push(submission);
    }
    await releaseJobs(proven, signal);
    for (const submission of proven) submission.isReleased = true;
    if (unproven.size === 0) return;
    const jobs = await listJobs(signal);
    const held = jobs.filter(({ name, ref, isHeld }) => isHeld && unproven.get(name) === ref);
    await releaseJobs(held, signal);
  }

  async function releaseJobs(jobs: readonly { ref: string }[], signal: AbortSignal): Promise<void> {
    if (jobs.length === 0) return;
    await scheduler.release(
      jobs.map(({ ref }) => ref),
      signal,
    );
  }

  return {
    /** Call it when the submission, started at `submittedAt`, has returned the ref of a job. */
    recordSubmission(jobId: string, ref: string, submittedAt: number): void {
      removeOldSubmissions();
      submissions.set(ref, { jobId, ref, submittedAt, isReleased: false });
    },
    release: coalesce(async (requests: ReadonlyMap<string, string>[], signal) => {
      await releaseAll(new Map(requests.flatMap((refs) => [...refs])), signal);
    }, minIntervalMs),
  };
}
