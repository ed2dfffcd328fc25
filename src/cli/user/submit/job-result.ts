import { exitCodes } from '../exit-codes.ts';

/** The exit code of a command that has seen the end of a job. A job that an administrator cancelled counts as failed elsewhere. */
export function exitCodeOf(job: { failed: boolean }, outcome: string | null | undefined): number {
  if (outcome === 'cancelled' || outcome === 'cancelled_by_site') return exitCodes.jobCancelled.code;
  return job.failed ? exitCodes.jobFailed.code : exitCodes.success.code;
}
