import { chunks } from '../../domain/chunks.ts';
import type { Engine } from '../engine.ts';
import { coalesce } from './coalesce.ts';
import { type RunCommand, requireSuccessUnlessFinished } from './commands.ts';
import { releaseCommand } from './scontrol.ts';
import type { SlurmJob } from './slurm-job.ts';

/**
 * How long after the start of sbatch its response counts as proof that a Slurm id belongs to a job. A controller that is
 * killed can give the id to another job, and no check excludes that it does so right before the release. This is about as
 * long as the check by squeue takes on a busy system, and shorter than most restarts of a controller.
 */
const proofMs = 1000;

/** While many jobs are submitted, each scontrol releases some of them. A single job is released at once. */
const minIntervalMs = 100;

interface Submission {
  jobId: string;
  ref: string;
  /** When sbatch was started. */
  submittedAt: number;
  isReleased: boolean;
}

export interface Releaser {
  /** Call it when sbatch, started at `submittedAt`, has returned the Slurm id of a job. */
  recordSubmission(jobId: string, ref: string, submittedAt: number): void;
  release: Engine['release'];
}

/**
 * Releases held jobs: one scontrol for all jobs that wait for it. Of a job that sbatch has just submitted, the id is known. For
 * every other job, squeue must confirm that the id still belongs to it and that it is held.
 */
export function createReleaser(
  run: RunCommand,
  listHeldJobs: (signal: AbortSignal) => Promise<SlurmJob[]>,
  now: () => number,
): Releaser {
  /** By Slurm id: if an id is given again, the last response of sbatch counts. */
  const submissions = new Map<string, Submission>();

  function removeOldSubmissions(): void {
    for (const [ref, { submittedAt }] of submissions) {
      const ageMs = now() - submittedAt;
      // Negative if the clock was set back: nobody knows how much time has passed.
      if (ageMs < 0 || ageMs >= proofMs) submissions.delete(ref);
    }
  }

  async function scontrolRelease(refs: readonly string[], signal: AbortSignal): Promise<void> {
    for (const chunk of chunks(refs)) {
      requireSuccessUnlessFinished('scontrol', await run(releaseCommand(chunk), signal));
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
    await scontrolRelease(
      proven.map(({ ref }) => ref),
      signal,
    );
    for (const submission of proven) submission.isReleased = true;
    if (unproven.size === 0) return;
    const held = (await listHeldJobs(signal)).filter(({ name, ref }) => unproven.get(name) === ref);
    await scontrolRelease(
      held.map(({ ref }) => ref),
      signal,
    );
  }

  return {
    recordSubmission(jobId, ref, submittedAt) {
      removeOldSubmissions();
      submissions.set(ref, { jobId, ref, submittedAt, isReleased: false });
    },
    release: coalesce(async (requests: ReadonlyMap<string, string>[], signal) => {
      await releaseAll(new Map(requests.flatMap((refs) => [...refs])), signal);
    }, minIntervalMs),
  };
}
