import type { Bursar, Job } from '#client';
import type { Context } from '../context.ts';
import { exitCodeOf } from '../submit/job-result.ts';
import { escapeLog } from '../terminal/text.ts';
import { findJob, pathOf } from './find-job.ts';
import { accessJob } from './job-access.ts';
import type { JobOptions } from './options.ts';

interface LogOptions extends JobOptions {
  follow?: boolean;
  stderr?: boolean;
}

/** Prints the output of a job. A followed log ends with the job, and the exit code is that of the job. */
export async function run(context: Context, options: LogOptions): Promise<void> {
  const { job: reference, owner = 'caller', follow = false, stderr = false } = options;
  const client = await context.client();
  const job = await findJob(context, reference, owner);
  const stream = stderr ? 'stderr' : 'stdout';
  const command = owner === 'caller' ? 'bursar job' : 'bursar admin job';
  if (follow && !job.terminal_stage)
    context.detachMessage = `The job ${job.job_id} runs on. Come back to it:\n  ${command} log -f ${job.job_id}`;
  const { signal } = context;
  const chunks =
    owner === 'caller'
      ? client.job(job).log({ stream, follow, signal })
      : readAnyLog(client, context, job, stream, follow);
  let last = '\n';
  for await (const text of chunks) {
    if (text === '') continue;
    last = text;
    if (context.options.json) await context.printJsonLine({ stream, text });
    else await context.print(context.isTerminal ? escapeLog(text) : text);
  }
  // The prompt of the shell begins on a line of its own.
  if (context.isTerminal && !last.endsWith('\n')) await context.print('\n');
  if (follow) {
    const { job: ended, entries } = await accessJob(client, context, job, owner).timeline();
    context.exitCode = exitCodeOf(ended, entries.findLast(({ type }) => type === 'job.ended')?.outcome);
  }
}

/** The log of a job of another user, as plain text. */
async function* readAnyLog(
  { api }: Bursar,
  { signal }: Context,
  job: Job,
  stream: 'stdout' | 'stderr',
  follow: boolean,
): AsyncGenerator<string> {
  const query = { stream, follow: follow ? '1' : '0' } as const;
  const response = await api.getJobLogOfAnyUser({ path: pathOf(job), query, signal, as: 'response' });
  const decoder = new TextDecoder();
  if (response.body === null) return;
  for await (const chunk of response.body) yield decoder.decode(chunk, { stream: true });
  yield decoder.decode();
}
