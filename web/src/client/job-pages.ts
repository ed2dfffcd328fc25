import type { BursarEvent, Job, JobSummary, JobSummaryPage } from '@bursar/client';
import type { QueryClient, QueryKey } from '@tanstack/react-query';
import { keys } from './queries.ts';

/** The filters of a page of jobs, and its start. */
export interface JobPageFilter {
  search?: string | undefined;
  hpc?: string | undefined;
  project?: string | undefined;
  state?: 'active' | 'ended' | 'failed' | undefined;
  tag?: string | undefined;
  user?: string | undefined;
  /** From the server. Default: the newest jobs. */
  cursor?: string | undefined;
}

/** The key of a page of one's own jobs, or of the jobs of all users. */
export const jobPageKey = (reach: 'own' | 'all', filter: JobPageFilter) => [...keys.jobs, reach, filter] as const;

/**
 * Writes the event into the pages of jobs on the screen, without a request. Returns the keys of those that must be read
 * again because a job enters or leaves them. Pages in the background are only marked: they are read when they are shown.
 */
export function updateJobPages(queryClient: QueryClient, event: BursarEvent): QueryKey[] {
  const outdated: QueryKey[] = [];
  for (const query of queryClient.getQueryCache().findAll({ queryKey: keys.jobs })) {
    if (!query.isActive() || event.job === null) {
      query.invalidate();
      continue;
    }
    const page = query.state.data as JobSummaryPage | undefined;
    const filter = query.queryKey[2] as JobPageFilter;
    const index = page?.jobs.findIndex(({ job }) => job.id === event.job?.id) ?? -1;
    // The response of a read that is under way may be older than the event. Writing data would clear the second mark.
    const mayBeOutdated = query.state.fetchStatus === 'fetching' || query.state.isInvalidated;
    if (page !== undefined && index >= 0) {
      const jobs = page.jobs.with(index, updateSummary(page.jobs[index] as JobSummary, event));
      queryClient.setQueryData(query.queryKey, { ...page, jobs });
    }
    if (mayBeOutdated || changesMembership(page, filter, event, event.job, index >= 0)) outdated.push(query.queryKey);
  }
  return outdated;
}

/** The row of a job after an event. Events that are older than the row change nothing. */
export function updateSummary(summary: JobSummary, { type, at, job, data }: BursarEvent): JobSummary {
  if (job === null) return summary;
  const isOlder = summary.started_at !== null && ['job.accepted', 'job.delayed', 'job.queued'].includes(type);
  if (isOlder || (summary.job.terminal_stage && !job.terminal_stage)) return summary;
  if (type === 'job.running') return { ...summary, job, started_at: summary.started_at ?? at };
  if (type !== 'job.ended') return { ...summary, job };
  const elapsedMs = (data.elapsed_seconds ?? 0) * 1000;
  const startedAt =
    elapsedMs > 0 && job.end_date !== null ? new Date(Date.parse(job.end_date) - elapsedMs).toISOString() : null;
  return {
    ...summary,
    job,
    started_at: summary.started_at ?? startedAt,
    outcome: data.outcome ?? null,
    charged_seconds: data.charged_seconds ?? null,
  };
}

function changesMembership(
  page: JobSummaryPage | undefined,
  filter: JobPageFilter,
  { type }: BursarEvent,
  job: Job,
  isListed: boolean,
): boolean {
  if (page === undefined) return true;
  if (isListed) return !matchesFilter(job, filter);
  // Of the properties that filters compare, only the state changes after the submission.
  if (type !== 'job.accepted' && filter.state === undefined) return false;
  return matchesFilter(job, filter) && isInRange(page, filter, job.id);
}

/** Whether the job may be in the list. Its tags are not part of events. */
function matchesFilter(job: Job, { hpc, project, state, user }: JobPageFilter): boolean {
  if (hpc !== undefined && job.project_hpc.toLowerCase() !== hpc) return false;
  if (project !== undefined && job.project_name !== project) return false;
  if (user !== undefined && job.owner !== user) return false;
  if (state === 'active') return !job.terminal_stage;
  if (state === 'ended') return job.terminal_stage;
  return state === undefined || job.failed;
}

/** Whether a job with this id would be on this page, between its neighbours. */
function isInRange({ jobs, next }: JobSummaryPage, { cursor }: JobPageFilter, id: number): boolean {
  const newest = jobs[0]?.job.id ?? 0;
  const oldest = jobs.at(-1)?.job.id ?? 0;
  return (cursor === undefined || id < newest) && (next === null || id > oldest);
}
