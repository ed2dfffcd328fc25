import { ApiError, type Bursar, type Event, type JobHandle, type System, type Timeline } from '#client';
import { formatCharge } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { latestEvent } from '../events/latest-event.ts';
import { escapeLog, escapeText } from '../terminal/text.ts';
import { formatDuration } from '../terminal/time.ts';
import { exitCodeOf } from './job-result.ts';

export interface WatchOptions {
  /** The last event before the submission: all later ones of the job are shown. */
  since: number;
  charge: System['charge'];
}

/**
 * Follows a job to its end: its stages on standard error, its output on standard output and its errors on standard error.
 * With --json, prints its events, one a line, and at last the job. The exit code is that of the job. Ctrl-C detaches.
 */
export async function watchJob(context: Context, client: Bursar, job: JobHandle, options: WatchOptions): Promise<void> {
  context.detachMessage = `The job ${job.job_id} runs on. Come back to it:\n  bursar job log -f ${job.job_id}`;
  const logs = context.options.json ? [] : [followLog(context, job, 'stdout'), followLog(context, job, 'stderr')];
  await Promise.all([followEvents(context, client, job, options), ...logs]);
  const { entries } = await job.timeline({ signal: context.signal });
  const end = entries.findLast(({ type }) => type === 'job.ended');
  context.exitCode = exitCodeOf(await job.refresh({ signal: context.signal }), end?.outcome ?? null);
  if (context.options.json) return await context.printJsonLine(job.data);
  context.note(describeEnd(context, job, end, options.charge));
  context.detachMessage = undefined;
}

/** Shows the events of the job after `since`, until it has ended. */
async function followEvents(context: Context, client: Bursar, job: JobHandle, { since }: WatchOptions): Promise<void> {
  const { signal } = context;
  const hasEnded = (await job.refresh({ signal })).terminal_stage;
  // A repeated submission can answer with a job that had ended before `since`.
  const last = hasEnded ? await latestEvent(context, client) : Number.POSITIVE_INFINITY;
  if (last <= since) return;
  let shownStage = '';
  for await (const event of client.events({ since, signal })) {
    if (event.job?.job_id === job.job_id) {
      if (context.options.json) await context.printJsonLine(event);
      else if (event.type !== 'job.ended' && event.job.stage !== shownStage) {
        shownStage = event.job.stage;
        context.note(context.errorStyle('dim', describeEvent(event)));
      } else if (event.type === 'job.delayed') context.note(describeEvent(event));
      if (event.type === 'job.ended') return;
    }
    if (event.id >= last) return;
  }
}

function describeEvent({ job, data }: Event): string {
  const reason = typeof data.reason === 'string' ? `: ${data.reason}` : '';
  return escapeText(`${job?.stage}${reason}`);
}

/** A log that cannot be read does not end the watching: the job may have none, or its files may be away. */
async function followLog(context: Context, job: JobHandle, stream: 'stdout' | 'stderr'): Promise<void> {
  const output = stream === 'stdout' ? context.stdout : context.stderr;
  try {
    for await (const text of job.log({ stream, follow: true, signal: context.signal })) {
      const shown = output.isTTY ? escapeLog(text) : text;
      await new Promise<void>((resolve) => {
        output.write(shown, () => resolve());
      });
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    context.note(`The ${stream} of the job cannot be read: ${escapeText(error.detail)}`);
  }
}

function describeEnd(
  { errorStyle }: Context,
  { data }: JobHandle,
  end: Timeline['entries'][number] | undefined,
  charge: System['charge'],
): string {
  const { used_seconds, charged_seconds, reason } = end ?? {};
  const details = [
    ...(typeof used_seconds === 'number' ? [`after ${formatDuration(used_seconds)}`] : []),
    ...(typeof charged_seconds === 'number' ? [`charged ${formatCharge(charged_seconds, charge)}`] : []),
    ...(data.failed && typeof reason === 'string' ? [escapeText(reason)] : []),
  ];
  const stage = errorStyle(data.failed ? 'red' : 'green', escapeText(data.stage));
  return [stage, ...details].join(', ');
}
