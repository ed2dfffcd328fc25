import type { Context } from '../context.ts';
import { findJob } from './find-job.ts';
import { accessJob } from './job-access.ts';
import type { JobOptions } from './options.ts';

interface CancelOptions extends JobOptions {
  reason?: string;
  wait?: boolean;
}

/** Cancels a job. Its files stay. */
export async function run(context: Context, options: CancelOptions): Promise<void> {
  const { job: reference, owner = 'caller', reason, wait } = options;
  const client = await context.client();
  const job = await findJob(context, reference, owner);
  let cancelled = await accessJob(client, context, job, owner).cancel(reason);
  if (wait && owner === 'caller' && !cancelled.terminal_stage) {
    context.detachMessage = `The job ${job.job_id} is being cancelled. See it: bursar job show ${job.job_id}`;
    cancelled = await client.job(cancelled).wait({ signal: context.signal });
  }
  if (context.options.json) return await context.printJson(cancelled);
  const state = cancelled.terminal_stage ? `has ended: ${cancelled.stage}` : 'is being cancelled';
  context.note(`The job ${job.job_id} ${state}.`);
}
