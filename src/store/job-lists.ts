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
  const { stage, failed, terminal, since, title } = filter;
  let query = inScope(db, filter).select(['id', 'public_json as json']).where('id', '>', after);
  if (stage !== undefined) query = query.where('stage', '=', stage);
  if (title !== undefined) query = query.where('title', '=', title);
  // Written out, not bound: only so does the planner know that the index of these few jobs will do.
  if (failed !== undefined) query = query.where('failed', '=', sql.lit(failed ? 1 : 0));
  if (terminal !== undefined) query = query.where('terminal', '=', sql.lit(terminal ? 1 : 0));
  if (since !== undefined) query = query.where('accepted_at', '>=', since).where('id', '>=', firstSince(db, since));
  return await query.orderBy('id').limit(most).execute();
}

/** Where to begin: numbers are given in the order of time, but for the slack, so older jobs need not be looked at. */
function firstSince(db: Db, since: number) {
  const accepted = db.selectFrom('jobs').where('accepted_at', '>=', since);
  const earliest = accepted.select((eb) => eb(eb.fn.min('accepted_at'), '+', clockSlackMs).as('at'));
  return accepted.select((eb) => eb.fn.min('id').as('id')).where('accepted_at', '<=', earliest);
}

export async function singleJobJson(db: Db, scope: JobScope, jobId: string): Promise<string | undefined> {
  const row = await inScope(db, scope).select('public_json').where('job_id', '=', jobId).executeTakeFirst();
  return row?.public_json;
}

function inScope(db: Db, { owner, hpc, project }: JobScope) {
  let query = db.selectFrom('jobs');
  if (owner !== undefined) query = query.where('owner', '=', owner);
  if (hpc !== undefined) query = query.where('hpc', '=', hpc);
  if (project !== undefined) query = query.where('project_name', '=', project);
  return query;
}
