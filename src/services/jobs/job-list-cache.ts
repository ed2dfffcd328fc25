import type { Db } from '../../store/database/handle.ts';
import { type ChangedJob, listChangedJobs } from '../../store/jobs/job-changes.ts';
import { type JobPage, type JobScope, readJobPage } from '../../store/jobs/job-lists.ts';
import { createRecentlyUsed } from '../recently-used.ts';

/** The part of somebody's jobs that a list shows. */
export interface ListScope extends JobScope {
  owner: string;
}

export interface JobListCache {
  /** What `nextJobs` would answer, though as a rule only what has changed is read for it. */
  next(db: Db, scope: ListScope, after: number, most: number, knownVersion: string | undefined): Promise<JobPage>;
}

/** About what a job takes beside its text: its number, and two references. */
const jobBytes = 50;

/**
 * Lists that were read before, with their version. Jobs are never removed, and whose they are and where never changes: so
 * a list as it was and the jobs that have changed since are the list as it is. Version and changes come from one look at
 * the books, so it does not matter who changed them, or on which instance.
 */
export function createJobListCache(mostBytes: number): JobListCache {
  const kept = createRecentlyUsed<JobPage>(mostBytes, ({ publicJson: texts }) =>
    texts.reduce((bytes, text) => bytes + jobBytes + text.length, 0),
  );

  async function upToDate(db: Db, list: JobPage, scope: ListScope, after: number, most: number) {
    const { version, jobs } = await listChangedJobs(db, scope.owner, list.version);
    if (jobs === undefined) return undefined;
    if (version === list.version) return list;
    return withChanges({ ...list, version }, jobs.filter(isIn(scope, after)), most);
  }

  return {
    async next(db, scope, after, most, knownVersion) {
      const question = JSON.stringify([scope.owner, scope.hpc, scope.project, after, most]);
      const list = kept.get(question);
      const current = list && (await upToDate(db, list, scope, after, most));
      const page = current ?? (await readJobPage(db, scope, after, most, knownVersion));
      // One that was not read anew has no jobs in it.
      const isWhole = current !== undefined || page.version !== knownVersion;
      if (isWhole && page !== list) kept.put(question, page);
      return page;
    },
  };
}

const isIn =
  ({ hpc, project }: ListScope, after: number) =>
  (job: ChangedJob) =>
    job.id > after && (hpc === undefined || job.hpc === hpc) && (project === undefined || job.project === project);

/** A list in which these jobs are as they are now. */
function withChanges(list: JobPage, changed: readonly ChangedJob[], most: number): JobPage {
  const [ids, texts] = [[...list.ids], [...list.publicJson]];
  const last = ids.at(-1) ?? 0;
  for (const { id, json } of changed) {
    const place = placeOf(ids, id);
    if (ids[place] === id) texts[place] = json;
    // What comes after a page that is not the last one is on another page.
    else if (id < last || !list.hasMore) {
      ids.splice(place, 0, id);
      texts.splice(place, 0, json);
    }
  }
  const more = list.hasMore || ids.length > most;
  return { version: list.version, ids: ids.slice(0, most), publicJson: texts.slice(0, most), hasMore: more };
}

/** Where a number is among ascending ones, or would have to be put. */
function placeOf(ids: readonly number[], id: number): number {
  let [from, to] = [0, ids.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((ids[middle] ?? 0) < id) from = middle + 1;
    else to = middle;
  }
  return from;
}
