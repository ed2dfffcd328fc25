import { sql } from 'kysely';
import type { Db } from './tables.ts';

/** Whose jobs, and where. */
export interface JobScope {
  /** Left out: everybody's, for administrators. */
  owner?: string;
  hpc?: string;
  project?: string;
}

export interface JobFilter extends JobScope {
  /** In the words of the system. */
  stage?: string;
  failed?: boolean;
  terminal?: boolean;
  /** Accepted at this moment or later. */
  since?: number;
  title?: string;
}

export interface ListedJob {
  id: number;
  json: string;
}

/** A job that got its number before another one was accepted by so much later at the most, by the clocks of all hosts. */
const clockSlackMs = 60_000;

/**
 * The next jobs of a list, by ascending record number, after the one named. Each kind of list has an index that is in
 * this order, so that a page costs the same however many jobs are stored.
 */
export async function nextJobs(db: Db, filter: JobFilter, after: number, most: number): Promise<ListedJob[]> {
  const { owner, hpc, project, stage, failed, terminal, since, title } = filter;
  const first = since === undefined ? 0 : await firstSince(db, since);
  if (first === null) return [];
  let query = db
    .selectFrom('jobs')
    .select(['id', 'public_json as json'])
    .where('id', '>', Math.max(after, first - 1));
  if (owner !== undefined) query = query.where('owner', '=', owner);
  // Few jobs pass these filters, and they have indexes of their own. The place is then looked at job by job: as an
  // expression, so that the planner does not take the index of the place, and looks at the filter job by job.
  const isRare = stage !== undefined || title !== undefined || failed === true || terminal === false;
  const column = (name: 'hpc' | 'project_name') =>
    isRare ? sql<string>`${sql.ref(name)} || ''` : sql.ref<string>(name);
  if (hpc !== undefined) query = query.where(column('hpc'), '=', hpc);
  if (project !== undefined) query = query.where(column('project_name'), '=', project);
  if (stage !== undefined) query = query.where('stage', '=', stage);
  if (title !== undefined) query = query.where('title', '=', title);
  // Written out, not bound: only so does the planner know that the index of these few jobs will do.
  if (failed !== undefined) query = query.where('failed', '=', sql.lit(failed ? 1 : 0));
  if (terminal !== undefined) query = query.where('terminal', '=', sql.lit(terminal ? 1 : 0));
  if (since !== undefined) query = query.where('accepted_at', '>=', since);
  return await query.orderBy('id').limit(most).execute();
}

/**
 * Where to begin, or null when there is no such job: numbers are given in the order of time, but for the slack, so older
 * jobs need not be looked at.
 */
async function firstSince(db: Db, since: number): Promise<number | null> {
  const accepted = db.selectFrom('jobs').where('accepted_at', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('accepted_at'), '+', clockSlackMs).as('at'));
  const { id } = await accepted
    .select((eb) => eb.fn.min<number | null>('id').as('id'))
    .where('accepted_at', '<=', earliest)
    .executeTakeFirstOrThrow();
  return id;
}

export async function singleJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  let query = db.selectFrom('jobs').select('public_json').where('job_id', '=', jobId);
  if (scope.owner !== undefined) query = query.where('owner', '=', scope.owner);
  if (scope.hpc !== undefined) query = query.where('hpc', '=', scope.hpc);
  if (scope.project !== undefined) query = query.where('project_name', '=', scope.project);
  return (await query.executeTakeFirst())?.public_json;
}
