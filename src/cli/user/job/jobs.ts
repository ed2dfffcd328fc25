import type { Bursar, Job } from '#client';
import type { Context } from '../context.ts';
import { usageError } from '../errors.ts';
import { latestEvent } from '../events/latest-event.ts';
import { createLiveView } from '../terminal/live-view.ts';
import { maxTableRows, selectRows } from '../terminal/select-rows.ts';
import { formatTable, terminalLines } from '../terminal/table.ts';
import { jobColumns } from './job-columns.ts';
import { parseSince } from './parse-since.ts';

export interface JobsOptions {
  stage?: string;
  system?: string;
  project?: string;
  since?: string;
  title?: string;
  tag?: string[];
  failed?: boolean;
  all?: boolean;
  watch?: boolean;
}

/** Without a filter, the list has the unfinished jobs and those of the last day. */
const recentMs = 86_400_000;

export async function run(context: Context, options: JobsOptions): Promise<void> {
  const client = await context.client();
  if (options.watch) return await watchJobs(context, client, options);
  const jobs = await listJobs(context, client, options);
  await context.printTable(jobs, jobColumns(jobs, context.now), describeEmpty(options));
}

function describeEmpty({ all, since, stage, system, project, title, tag, failed }: JobsOptions): string {
  return [all, since, stage, system, project, title, tag, failed].some((value) => value !== undefined)
    ? 'There are no such jobs.'
    : 'No job is unfinished, and none was submitted in the last 24 hours. See all: bursar jobs --all';
}

/** Reads the jobs that the options select, by ascending id. */
async function listJobs({ now, signal }: Context, client: Bursar, options: JobsOptions): Promise<Job[]> {
  const { system, project, stage, title, tag, failed, since, all } = options;
  const filter = {
    ...(system === undefined ? {} : { hpc: system }),
    ...(stage === undefined ? {} : { stage }),
    ...(title === undefined ? {} : { title }),
    ...(tag === undefined ? {} : { tag }),
    ...(failed === undefined ? {} : { failed }),
    ...(since === undefined ? {} : { since: parseSince(since, now()) }),
  };
  const collect = async (more: { terminal?: boolean; since?: string } = {}) => {
    const found: Job[] = [];
    for await (const job of client.jobs({ ...filter, ...more, signal })) found.push(job);
    return project === undefined ? found : found.filter((job) => job.project_name === project);
  };
  const isLimited = all || [since, stage, title, tag, failed].some((value) => value !== undefined);
  if (isLimited) return await collect();
  const recent = await collect({ since: new Date(now() - recentMs).toISOString() });
  const known = new Set(recent.map(({ id }) => id));
  const unfinished = (await collect({ terminal: false })).filter(({ id }) => !known.has(id));
  return [...unfinished, ...recent].toSorted((a, b) => a.id - b.id);
}

/** Shows the jobs and their changes, as events report them, until no job is unfinished. */
async function watchJobs(context: Context, client: Bursar, options: JobsOptions): Promise<void> {
  if (options.stage !== undefined || options.failed !== undefined)
    throw usageError('--watch shows jobs in all stages.', 'Leave out --stage and --failed.');
  const { signal } = context;
  // The position is read before the list, so that no change between the two is missed.
  const position = await latestEvent(context, client);
  const jobs = new Map((await listJobs(context, client, options)).map((job) => [job.job_id, job]));
  const listedAt = await latestEvent(context, client);
  const isWanted = (job: Job) => {
    if (options.system !== undefined && job.project_hpc.toLowerCase() !== options.system) return false;
    if (options.project !== undefined && job.project_name !== options.project) return false;
    return jobs.has(job.job_id) || (options.title === undefined && options.tag === undefined);
  };
  const isFinished = () => [...jobs.values()].every((job) => job.terminal_stage);
  const list = () => [...jobs.values()];
  const print = (changed: Job[], isFirst: boolean) => printChanges(context, changed, isFirst);
  const view = context.canRedraw
    ? createLiveView(context, (columns) => renderJobs(context, list(), columns))
    : undefined;
  context.detachMessage = 'Your jobs run on. Come back to them:\n  bursar jobs --watch';
  try {
    if (view === undefined) await print(list(), true);
    view?.update();
    if (isFinished()) return;
    for await (const { id, job: reported } of client.events({ since: position, signal })) {
      if (reported === null || !isWanted(reported)) continue;
      // Such an event may be older than the list.
      const job = id <= listedAt ? await client.job(reported).refresh({ signal }) : reported;
      const known = jobs.get(job.job_id);
      if (JSON.stringify(known) === JSON.stringify(job)) continue;
      jobs.set(job.job_id, job);
      if (view === undefined) await print([job], false);
      view?.update();
      if (isFinished()) return;
    }
  } finally {
    view?.end();
  }
}

/** Shows the unfinished and the newest jobs, if the terminal has not enough lines for all. */
function renderJobs({ stdout, now, style }: Context, jobs: Job[], columns: number): string[] {
  const rank = (job: Job) => (job.terminal_stage ? 0 : -1e12) - job.id;
  const shown = selectRows(jobs, maxTableRows(stdout.rows, 4), rank);
  const ended = jobs.length - shown.length;
  return [
    ...terminalLines(shown, jobColumns(jobs, now), { columns, style }),
    ...(ended > 0 ? [style('dim', `… and ${ended} older; all of them: bursar jobs`)] : []),
  ];
}

async function printChanges(context: Context, jobs: Job[], isFirst: boolean): Promise<void> {
  if (context.options.json) {
    for (const job of jobs) await context.printJsonLine(job);
    return;
  }
  const table = formatTable(jobs, jobColumns(jobs, context.now), { columns: undefined, style: context.style });
  await context.print(isFirst ? table : table.slice(table.indexOf('\n') + 1));
}
