import type { Job, System, Timeline } from '#client';
import { formatCharge } from '../../../domain/format-amount.ts';
import type { Context } from '../context.ts';
import { exitCodeOf } from '../submit/job-result.ts';
import { createLiveView } from '../terminal/live-view.ts';
import { escapeText } from '../terminal/text.ts';
import { formatDuration, relativeTime } from '../terminal/time.ts';
import { findJob } from './find-job.ts';
import { accessJob } from './job-access.ts';
import { stageColour } from './job-columns.ts';
import type { JobOptions } from './options.ts';

interface ShowOptions extends JobOptions {
  watch?: boolean;
}

export async function run(context: Context, { job: reference, owner = 'caller', watch }: ShowOptions): Promise<void> {
  const client = await context.client();
  const job = await findJob(context, reference, owner);
  if (watch) return await watchJob(context, job);
  if (context.options.json) return await context.printJson(job);
  const timeline = await accessJob(client, context, job, owner).timeline();
  await context.printFields(describeJob(context, timeline, await findCharge(context, job)));
}

/** The unit of the charged time; undefined if the system is gone. */
async function findCharge(context: Context, job: Job): Promise<System['charge'] | undefined> {
  const { api } = await context.client();
  const systems = await api.listSystems({ signal: context.signal });
  return systems.find(({ project_hpc: name }) => name === job.project_hpc)?.charge;
}

type Field = readonly [name: string, value: string];

export function describeJob(context: Context, timeline: Timeline, charge: System['charge'] = 'wall'): Field[] {
  const { job, tags, entries, charged_seconds: charged, used_seconds: used } = timeline;
  const time = (text: string) => (context.isTerminal ? `${relativeTime(text, context.now())} (${text})` : text);
  const seconds = (amount: number) => (context.isTerminal ? formatCharge(amount, charge) : String(amount));
  const end = entries.findLast(({ type }) => type === 'job.ended');
  const started = entries.findLast(({ type }) => type === 'job.running');
  const delay = job.terminal_stage ? undefined : entries.findLast(({ type }) => type === 'job.delayed');
  const optional = (name: string, value: string | number | null | undefined): Field[] =>
    value === null || value === undefined || value === '' ? [] : [[name, String(value)]];
  return [
    ['job', job.job_id],
    ['title', job.title],
    ['stage', job.stage],
    ...optional('outcome', end?.outcome),
    ...optional('reason', end?.reason ?? delay?.reason),
    ...optional('exit code', end?.exit_code),
    ['system', job.project_hpc.toLowerCase()],
    ['project', job.project_name],
    ['owner', job.owner],
    ...optional('tags', tags.join(', ')),
    ['submitted', time(job.init_date)],
    ...optional('started', started && time(started.at)),
    ...optional('ended', job.end_date && time(job.end_date)),
    ['runtime granted', context.isTerminal ? formatDuration(job.runtime * 3600) : String(job.runtime)],
    ...optional('runtime used', used === null ? null : context.isTerminal ? formatDuration(used) : used),
    ['held at most', seconds(timeline.held_seconds)],
    ...optional('charged', charged === null ? null : seconds(charged)),
  ];
}

/** Shows the job until it has ended. The exit code is that of the job. */
async function watchJob(context: Context, found: Job): Promise<void> {
  const client = await context.client();
  const handle = client.job(found);
  const { style, signal } = context;
  const charge = context.isTerminal ? await findCharge(context, found) : undefined;
  let timeline = await handle.timeline({ signal });
  const view = context.canRedraw
    ? createLiveView(context, () =>
        describeJob(context, timeline, charge).map(([name, value]) => {
          const text = escapeText(value);
          return `${style('dim', name.padEnd(15))}  ${name === 'stage' ? style(stageColour(timeline.job), text) : text}`;
        }),
      )
    : undefined;
  context.detachMessage = `The job ${found.job_id} runs on. Come back to it:\n  bursar job show --watch ${found.job_id}`;
  let shownStage: string | undefined;
  const show = async (job: Job) => {
    if (view !== undefined) {
      timeline = await handle.timeline({ signal });
      view.update();
    } else if (context.options.json) await context.printJsonLine(job);
    else if (job.stage !== shownStage)
      await context.print(`${job.end_date ?? new Date(context.now()).toISOString()}\t${job.stage}\n`);
    shownStage = job.stage;
  };
  try {
    let shown: Promise<void> = Promise.resolve();
    const ended = await handle.wait({
      signal,
      onChange: (job) => {
        shown = shown.then(() => show(job));
        // Ctrl-C ends the requests of this, and the wait: only one of the two errors is caught below.
        shown.catch(() => undefined);
      },
    });
    await shown;
    timeline = await handle.timeline({ signal });
    const end = timeline.entries.findLast(({ type }) => type === 'job.ended');
    context.exitCode = exitCodeOf(ended, end?.outcome);
  } finally {
    view?.end();
  }
}
