import type { Job } from '#client';
import type { Context } from '../context.ts';
import { CommandError, usageError } from '../errors.ts';
import { shorten } from '../terminal/text.ts';

/** How a job is named on the command line, for help texts. */
export const jobArgument = ['<job>', 'the id of a job or the beginning of it, or @last for the newest one'] as const;

const lastReference = '@last';
const maxCandidates = 10;

/** `own`: the jobs of the caller. `any`: the jobs of all users. */
export type JobOwner = 'caller' | 'anyone';

/** Finds the job that a user has named. Throws if there is none, or several begin like that. */
export async function findJob(context: Context, reference: string, owner: JobOwner = 'caller'): Promise<Job> {
  const { api } = await context.client();
  const { signal } = context;
  const isLast = reference === lastReference;
  const query = isLast ? { limit: 1 } : { limit: maxCandidates, job_id: parseBeginning(reference) };
  const { jobs, next } =
    owner === 'caller'
      ? await api.listJobSummaries({ query, signal })
      : await api.listJobSummariesOfAllUsers({ query, signal });
  const candidates = jobs.map(({ job }) => job);
  return isLast ? requireJob(candidates[0]) : selectJob(candidates, next !== null, reference);
}

/** The beginning of a job id. A shortened id may end with "…", as tables show it. */
export function parseBeginning(reference: string): string {
  const beginning = reference.replace(/(…|\.\.\.)$/, '');
  if (beginning === '') throw usageError('The id of the job is empty.', 'See your jobs: bursar jobs --all');
  return beginning;
}

function requireJob(newest: Job | undefined): Job {
  if (newest === undefined) throw new CommandError('failure', 'There are no jobs.', 'Submit one: bursar submit');
  return newest;
}

/** Selects among the newest jobs whose ids begin like that. A whole id wins over the beginnings of others. */
export function selectJob(candidates: readonly Job[], hasMore: boolean, reference: string): Job {
  const wanted = parseBeginning(reference).toUpperCase();
  const [only, ...others] = candidates;
  const exact = candidates.find((job) => job.job_id === wanted);
  if (exact !== undefined) return exact;
  if (only === undefined)
    throw new CommandError(
      'failure',
      `There is no job whose id begins with "${reference}".`,
      'See your jobs: bursar jobs --all',
    );
  if (others.length > 0) throw ambiguous(candidates, hasMore, reference);
  return only;
}

function ambiguous(candidates: readonly Job[], hasMore: boolean, reference: string): CommandError {
  const lines = candidates.map((job) => `  ${job.job_id}  ${job.stage}  ${shorten(job.title, 40)}`);
  const count = hasMore ? `More than ${candidates.length}` : candidates.length;
  return usageError(`${count} jobs begin with "${reference}". Write more of the id:`, lines.join('\n'));
}

/** The path of a job in the API. */
export function pathOf(job: Job): { hpc: string; project_name: string; job_id: string } {
  return { hpc: job.project_hpc.toLowerCase(), project_name: job.project_name, job_id: job.job_id };
}
