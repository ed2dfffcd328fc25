import { setImmediate } from 'node:timers/promises';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import type { JobFilter } from '../../store/jobs/job-filters.ts';
import { findJobJson, type JobPage, readJobPage, readJobsVersion } from '../../store/jobs/job-lists.ts';
import { type Owner, type PathScope, type ReadDeps, requireScope, requireSystem, type Systems } from '../scope.ts';
import type { VersionedJson } from '../versioned.ts';
import { type JobPath, requireJob } from './find-job.ts';

/** Filters and page of a list. Without a limit the list has all jobs after the given one. */
export interface JobListQuery extends Omit<JobFilter, 'owner' | 'hpc' | 'project'> {
  /** The id of the last job of the previous page. */
  after?: number;
  limit?: number;
}

/** A longer list is sent in chunks. */
const maxUnchunkedJobs = 1000;
const jobsPerChunk = 200;

/** Lists jobs without asking the scheduler. */
export async function listJobs(
  deps: ReadDeps,
  owner: Owner,
  scope: PathScope,
  { after = 0, limit, ...filters }: JobListQuery,
): Promise<VersionedJson> {
  const { db } = deps;
  await requireScope(deps, scope);
  requireKnownStage(deps.systems, scope, filters.stage);
  const filter = { ...(owner === undefined ? {} : { owner }), ...scope, ...filters };
  return {
    // Read before the jobs, so that they are never older. A client that has this version costs no more.
    version: await readJobsVersion(db, owner),
    body: async () => {
      const page = await readJobPage(db, filter, after, limit ?? maxUnchunkedJobs);
      if (page.hasMore && limit === undefined) return { chunks: allJobs(db, filter, page) };
      const json = `[${page.json}]`;
      return page.hasMore && page.lastId !== undefined ? { json, nextAfterId: page.lastId } : { json };
    },
  };
}

/**
 * Reads the next chunk only when the previous one was sent, so that a slow client costs no memory. Other requests are
 * handled between two chunks: SQLite reads synchronously, and a fast client takes each chunk at once.
 */
async function* allJobs(db: Db, filter: JobFilter, first: JobPage): AsyncGenerator<string> {
  yield `[${first.json}`;
  for (let page = first; page.hasMore && page.lastId !== undefined; ) {
    await setImmediate();
    page = await readJobPage(db, filter, page.lastId, jobsPerChunk);
    if (page.json !== '') yield `,${page.json}`;
  }
  yield ']';
}

/** A stage that no job can be in is probably misspelt. */
export function requireKnownStage(systems: Systems, { hpc }: PathScope, stage: string | undefined): void {
  if (stage === undefined) return;
  const inScope = hpc === undefined ? [...systems.values()] : [requireSystem(systems, hpc)];
  const stages = new Set(inScope.flatMap((system) => Object.values(system.stages)));
  if (stages.has(stage)) return;
  const message = `must be one of ${[...stages].join(', ')}`;
  throw new BursarError('bad_request', `"stage" ${message}.`, { fields: [{ field: 'stage', message }] });
}

/** The public JSON of one job. A job of another owner is reported as unknown. */
export async function readJob(deps: ReadDeps, path: JobPath): Promise<string> {
  const { owner, hpc, project, jobId } = path;
  requireSystem(deps.systems, hpc);
  const json = await findJobJson(deps.db, { ...(owner === undefined ? {} : { owner }), hpc, project }, jobId);
  // Finds out why: the project may be unknown too, or the job may be another user's.
  return json ?? (await requireJob(deps, path)).publicJson;
}
