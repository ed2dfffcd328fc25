import { exitCodes } from '../exit-codes.ts';

/** The exit code of a command that has seen the end of a job. A job that its owner cancelled has not failed. */
export function exitCodeOf(job: { failed: boolean }, outcome: string | null | undefined): number {
  if (job.failed) return exitCodes.jobFailed.code;
  return outcome === 'cancelled' ? exitCodes.jobCancelled.code : exitCodes.success.code;
}
