import { setImmediate } from 'node:timers/promises';
import type { Db } from '../../store/database/handle.ts';
import type { JobFilter } from '../../store/jobs/job-filters.ts';
import {
  isCommonPrefix,
  type JobSummary,
  readJobSummaries,
  readSearchableJobs,
} from '../../store/jobs/job-summaries.ts';
import { type Owner, type PathScope, requireScope } from '../scope.ts';
import type { ServiceDeps } from '../service-deps.ts';
import { requireKnownStage } from './read-jobs.ts';

/** Filters and page of a list of summaries. */
export interface JobSummaryQuery extends Omit<JobFilter, 'owner' | 'hpc' | 'project'> {
  /** Only jobs whose title, id or tags contain this text, in upper or lower case. */
  search?: string;
  /** The id of the last job of the previous page, which is newer than those of this page. */
  before?: number;
  limit?: number;
}

type PageQuery = JobSummaryQuery & JobFilter;

export interface JobSummaryPage {
  jobs: readonly JobSummary[];
  /** The next page has the jobs before this id; null on the last page. */
  nextBefore: number | null;
}

const defaultPageSize = 50;
/** Other requests are handled after each chunk of a search: SQLite reads synchronously. */
const jobsPerChunk = 1000;

/**
 * Lists one page of jobs, newest first. The cost does not grow with the number of jobs, except by a search and by a
 * beginning that many ids have.
 */
export async function listJobSummaries(
  deps: Pick<ServiceDeps, 'db' | 'systems' | 'searches'>,
  caller: string,
  owner: Owner,
  scope: PathScope,
  query: JobSummaryQuery,
  signal: AbortSignal,
): Promise<JobSummaryPage> {
  await requireScope(deps, scope);
  requireKnownStage(deps.systems, scope, query.stage);
  const mayReadAllJobs = query.search !== undefined || query.jobIdPrefix !== undefined;
  const read = () => readPage(deps.db, { ...(owner === undefined ? {} : { owner }), ...scope, ...query }, signal);
  return mayReadAllJobs ? await deps.searches.run(read, { key: caller }) : await read();
}

async function readPage(
  db: Db,
  { before = Number.MAX_SAFE_INTEGER, limit = defaultPageSize, search, jobIdPrefix, ...filters }: PageQuery,
  signal: AbortSignal,
): Promise<JobSummaryPage> {
  // The index serves a rare beginning. Jobs with a common one are found soon if the newest are read first.
  const isIndexed = jobIdPrefix !== undefined && !(await isCommonPrefix(db, jobIdPrefix));
  const filter = { ...filters, ...(isIndexed ? { jobIdPrefix } : {}) };
  const texts = { search: search ?? '', jobIdPrefix: isIndexed ? '' : (jobIdPrefix ?? '') };
  const ids: number[] = [];
  // One more than the page has, to know whether another page follows.
  for await (const id of findJobIds(db, filter, texts, before, limit + 1, signal)) if (ids.push(id) > limit) break;
  const hasMore = ids.length > limit;
  const pageIds = ids.slice(0, limit);
  return { jobs: await readJobSummaries(db, pageIds), nextBefore: hasMore ? (pageIds.at(-1) ?? null) : null };
}

/**
 * Finds the jobs of a list, newest first. Texts are compared here and not in the database, because the two databases
 * disagree about upper and lower case. It ends early if the caller has gone.
 */
async function* findJobIds(
  db: Db,
  filter: JobFilter,
  { search, jobIdPrefix }: { search: string; jobIdPrefix: string },
  before: number,
  limit: number,
  signal: AbortSignal,
): AsyncGenerator<number> {
  const matches = matchSearch(search);
  const chunkSize = search === '' && jobIdPrefix === '' ? limit : jobsPerChunk;
  for (let cursor = before; !signal.aborted; ) {
    const jobs = await readSearchableJobs(db, filter, cursor, chunkSize);
    for (const job of jobs) if (job.jobId.startsWith(jobIdPrefix) && matches(job)) yield job.id;
    const last = jobs.at(-1);
    if (last === undefined || jobs.length < chunkSize) return;
    cursor = last.id;
    await setImmediate();
  }
}

/** Returns a test for jobs whose title, id or one of their tags contains the text, in upper or lower case. */
function matchSearch(text: string) {
  const searched = text.toLowerCase();
  const contains = (value: string) => value.toLowerCase().includes(searched);
  return ({ title, jobId, tags }: { title: string; jobId: string; tags: readonly string[] }) =>
    contains(title) || contains(jobId) || tags.some(contains);
}
