import type { Context } from '../context.ts';
import { findJob } from './find-job.ts';
import { accessJob } from './job-access.ts';
import type { JobOptions } from './options.ts';

interface DeleteOptions extends JobOptions {
  reason?: string;
}

/** Deletes the files of a finished job, which frees its space. */
export async function run(
  context: Context,
  { job: reference, owner = 'caller', reason }: DeleteOptions,
): Promise<void> {
  const client = await context.client();
  const job = await findJob(context, reference, owner);
  const deleted = await accessJob(client, context, job, owner).delete(reason);
  if (context.options.json) return await context.printJson(deleted);
  context.note(`The files of the job ${job.job_id} are deleted.`);
}
