import { LRUCache } from 'lru-cache';
import type { Db } from '../../store/database/handle.ts';
import { type ChangedJob, listChangedJobs } from '../../store/jobs/job-changes.ts';
import type { JobScope } from '../../store/jobs/job-filters.ts';
import { type JobPage, readJobPage } from '../../store/jobs/job-lists.ts';

/** The jobs of one user, on all systems, one system or in one project. */
export interface ListScope extends JobScope {
  owner: string;
}

export interface JobListCache {
  /** Returns what `readJobPage` would, but usually reads only the jobs that changed. */
  readPage(db: Db, scope: ListScope, after: number, limit: number): Promise<JobPage>;
}

/** Memory of an entry, and of a job in it, beside their publicJson. */
const entryBytes = 500;
const jobBytes = 50;

/**
 * Keeps pages of job lists and updates them. Jobs are never removed and never change owner, system or project, so an
 * old page plus the jobs that changed since is the current page. Version and changes come from one query, so a change
 * by any instance is seen.
 */
export function createJobListCache(maxBytes: number): JobListCache {
  const pages = new LRUCache<string, JobPage>({
    maxSize: maxBytes,
    sizeCalculation: ({ publicJson }, key) =>
      publicJson.reduce((bytes, text) => bytes + jobBytes + text.length, entryBytes + key.length),
  });

  async function updatePage(db: Db, page: JobPage, scope: ListScope, after: number, limit: number) {
    const { version, jobs } = await listChangedJobs(db, scope.owner, page.version);
    if (jobs === undefined) return undefined;
    if (version === page.version) return page;
    return applyChanges({ ...page, version }, jobs.filter(isInScope(scope, after)), limit);
  }

  return {
    async readPage(db, scope, after, limit) {
      const key = JSON.stringify([scope.owner, scope.hpc, scope.project, after, limit]);
      const cached = pages.get(key);
      const page =
        (cached && (await updatePage(db, cached, scope, after, limit))) ?? (await readJobPage(db, scope, after, limit));
      if (page !== cached) pages.set(key, page);
      return page;
    },
  };
}

const isInScope =
  ({ hpc, project }: ListScope, after: number) =>
  (job: ChangedJob) =>
    job.id > after && (hpc === undefined || job.hpc === hpc) && (project === undefined || job.project === project);

function applyChanges(page: JobPage, changed: readonly ChangedJob[], limit: number): JobPage {
  const [ids, publicJson] = [[...page.ids], [...page.publicJson]];
  const lastId = ids.at(-1) ?? 0;
  for (const { id, json } of changed) {
    const index = insertionIndex(ids, id);
    if (ids[index] === id) publicJson[index] = json;
    // A job after a page that is not the last one belongs to a later page.
    else if (id < lastId || !page.hasMore) {
      ids.splice(index, 0, id);
      publicJson.splice(index, 0, json);
    }
  }
  const hasMore = page.hasMore || ids.length > limit;
  return { version: page.version, ids: ids.slice(0, limit), publicJson: publicJson.slice(0, limit), hasMore };
}

/** Binary search: the index of an id among ascending ones, or where to insert it. */
function insertionIndex(ids: readonly number[], id: number): number {
  let [low, high] = [0, ids.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ids[middle] ?? 0) < id) low = middle + 1;
    else high = middle;
  }
  return low;
}
