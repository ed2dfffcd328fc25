import type { Bursar, Job } from '#client';
import type { Context } from '../context.ts';
import { CommandError, usageError } from '../errors.ts';
import { shorten } from '../terminal/text.ts';

/** How a job is named on the command line, for help texts. */
export const jobArgument = ['<job>', 'the id of a job or the beginning of it, or @last for the newest one'] as const;

const lastReference = '@last';
const maxCandidates = 10;

/** `own`: the jobs of the caller. `any`: the jobs of all users. */
export type Reach = 'own' | 'any';

/** Finds the job that a user has named. Throws if there is none, or several begin like that. */
export async function findJob(context: Context, reference: string, reach: Reach = 'own'): Promise<Job> {
  const client = await context.client();
  const jobs = await listAllJobs(client, reach, context.signal);
  return selectJob(jobs, reference);
}

async function listAllJobs({ api }: Bursar, reach: Reach, signal: AbortSignal): Promise<Job[]> {
  return reach === 'own' ? await api.listJobs({ signal }) : await api.listJobsOfAllUsers({ signal });
}

/** Upper and lower case are the same. A shortened id may end with "…", as tables show it. */
export function selectJob(jobs: readonly Job[], reference: string): Job {
  if (reference === lastReference) {
    const newest = jobs.reduce<Job | undefined>((a, b) => (a === undefined || b.id > a.id ? b : a), undefined);
    if (newest === undefined) throw new CommandError('failure', 'There are no jobs.', 'Submit one: bursar submit');
    return newest;
  }
  const wanted = reference.replace(/(…|\.\.\.)$/, '').toLowerCase();
  if (wanted === '') throw usageError('The id of the job is empty.', 'See your jobs: bursar jobs --all');
  const exact = jobs.find((job) => job.job_id.toLowerCase() === wanted);
  if (exact !== undefined) return exact;
  const matches = jobs.filter((job) => job.job_id.toLowerCase().startsWith(wanted));
  const [match] = matches;
  if (match === undefined)
    throw new CommandError(
      'failure',
      `There is no job whose id begins with "${reference}".`,
      'See your jobs: bursar jobs --all',
    );
  if (matches.length > 1) throw ambiguous(reference, matches);
  return match;
}

function ambiguous(reference: string, matches: readonly Job[]): CommandError {
  const newest = matches.toSorted((a, b) => b.id - a.id).slice(0, maxCandidates);
  const lines = newest.map((job) => `  ${job.job_id}  ${job.stage}  ${shorten(job.title, 40)}`);
  const others = matches.length - newest.length;
  const list = [...lines, ...(others > 0 ? [`  … and ${others} more`] : [])].join('\n');
  return usageError(`${matches.length} jobs begin with "${reference}". Write more of the id:`, list);
}

/** The path of a job in the API. */
export function pathOf(job: Job): { hpc: string; project_name: string; job_id: string } {
  return { hpc: job.project_hpc.toLowerCase(), project_name: job.project_name, job_id: job.job_id };
}
