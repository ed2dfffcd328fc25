import { sql } from 'kysely';
import type { JobState } from '../../domain/jobs/job.ts';
import type { Db, Tx } from '../database/handle.ts';
import { prepared } from '../database/prepared.ts';
import { type JobRecord, toJobRecord } from './jobs.ts';

/** What the lifecycle looks for: jobs to submit, to follow, to cancel, and the files that nobody has a use for. */
const toDispatch: JobState[] = ['accepted', 'submitting'];

/**
 * The conditions of the indexes that hold only these jobs, word for word: a database takes such an index for a query that
 * repeats them. Otherwise each look would go through all jobs that ever ended.
 */
export const isUnfinished = sql<boolean>`state in ('accepted', 'submitting', 'queued', 'running')`;
const toCancel = sql<boolean>`cancel_requested_at is not null and state in ('submitting', 'queued', 'running')`;

/**
 * Takes up the jobs of a system that are due to be submitted, except those that are in hand. This is also the stored
 * intent to submit them: a job that was tried before may be known to the engine already.
 */
export async function claimDueJobs(
  db: Db,
  hpc: string,
  { now, limit, excludedIds }: { now: number; limit: number; excludedIds: readonly number[] },
): Promise<JobRecord[]> {
  const due = waiting(db, hpc, excludedIds).select('id').where('due_at', '<=', now).orderBy('id').limit(limit);
  const rows = await db
    .updateTable('jobs')
    .set((eb) => ({ state: 'submitting', tries: eb('tries', '+', 1) }))
    .where('id', 'in', due)
    .where('state', 'in', toDispatch)
    .returningAll()
    .execute();
  return rows.map(toJobRecord).sort((a, b) => a.id - b.id);
}

/** When the next job of a system falls due, of those that are not in hand; undefined when none is waiting. */
export async function findNextDueAt(db: Db, hpc: string, excludedIds: readonly number[]): Promise<number | undefined> {
  const row = await waiting(db, hpc, excludedIds)
    .select((eb) => eb.fn.min<number | null>('due_at').as('at'))
    .executeTakeFirst();
  return row?.at ?? undefined;
}

function waiting(db: Db, hpc: string, excludedIds: readonly number[]) {
  const query = db.selectFrom('jobs').where('hpc', '=', hpc).where(isUnfinished).where('state', 'in', toDispatch);
  return excludedIds.length === 0 ? query : query.where('id', 'not in', excludedIds);
}

/** Gives a job back to be tried again later. */
export async function postponeJob(db: Db, id: number, dueAt: number): Promise<void> {
  await db.updateTable('jobs').set({ due_at: dueAt }).where('id', '=', id).where('state', 'in', toDispatch).execute();
}

/** Takes a queued job back from an engine that lost it before it began, to be submitted anew. */
export async function requeueJob(tx: Tx, jobId: string, engineRef: string, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('jobs')
    .set({ state: 'submitting', engine_ref: null, due_at: now })
    .where('job_id', '=', jobId)
    .where('state', '=', 'queued')
    .where('engine_ref', '=', engineRef)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export interface UnfinishedJob {
  state: JobState;
  engineRef: string | null;
}

/** The jobs of a system that have not ended, by their public identifiers: no more of them than each look needs. */
export async function listUnfinishedJobs(db: Db, hpc: string): Promise<Map<string, UnfinishedJob>> {
  return new Map((await unfinishedRows(db, hpc).execute()).map((row) => [row.job_id, row]));
}

/** The same, of these jobs. */
export async function findUnfinishedJobs(
  db: Db,
  hpc: string,
  jobIds: readonly string[],
): Promise<Map<string, UnfinishedJob>> {
  const jobs = new Map<string, UnfinishedJob>();
  // A statement binds a limited number of values.
  for (let first = 0; first < jobIds.length; first += 1000) {
    const some = jobIds.slice(first, first + 1000);
    for (const row of await unfinishedRows(db, hpc).where('job_id', 'in', some).execute()) jobs.set(row.job_id, row);
  }
  return jobs;
}

function unfinishedRows(db: Db, hpc: string) {
  const columns = ['job_id', 'state', 'engine_ref as engineRef'] as const;
  return db.selectFrom('jobs').select(columns).where('hpc', '=', hpc).where(isUnfinished);
}

/** Notes that its owner wants a job to end; for one that has ended it changes nothing. */
export async function requestCancellation(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set((eb) => ({ cancel_requested_at: eb.fn.coalesce('cancel_requested_at', eb.val(now)) }))
    .where('id', '=', id)
    .where(isUnfinished)
    .execute();
}

/** The jobs of a system that an engine has, and whose owners want them to end. */
export async function listJobsToCancel(db: Db, hpc: string): Promise<string[]> {
  const rows = await allToCancel(db, {});
  return rows.filter((row) => row.hpc === hpc && row.state !== 'submitting').map((row) => row.job_id);
}

/** On all systems, as they are few: asked for those of one, SQLite prefers an index of all jobs that it ever had. */
const allToCancel = prepared((db) => db.selectFrom('jobs').select(['job_id', 'hpc', 'state']).where(toCancel));

/**
 * Of these jobs, the ones whose files are not wanted any more: they are deleted, they ended without having been with an
 * engine, or there is no such job.
 */
export async function listJobsWithUnneededFiles(db: Db, jobIds: readonly string[]): Promise<string[]> {
  const kept = new Set<string>();
  // A statement binds a limited number of values.
  for (let first = 0; first < jobIds.length; first += 1000) {
    const rows = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('job_id', 'in', jobIds.slice(first, first + 1000))
      .where('state', '<>', 'deleted')
      .where((eb) => eb.or([eb('state', '<>', 'ended'), eb('engine_ref', 'is not', null)]))
      .execute();
    for (const row of rows) kept.add(row.job_id);
  }
  return jobIds.filter((jobId) => !kept.has(jobId));
}

/** Of these jobs, which are known, and whose zip is still needed. */
export async function findInputJobs(db: Db, jobIds: readonly string[]) {
  const existing = new Set<string>();
  const needingInput = new Set<string>();
  // A statement binds a limited number of values.
  for (let first = 0; first < jobIds.length; first += 1000) {
    const rows = await db
      .selectFrom('jobs')
      .select(['job_id', 'state'])
      .where('job_id', 'in', jobIds.slice(first, first + 1000))
      .execute();
    for (const { job_id, state } of rows) {
      existing.add(job_id);
      if (toDispatch.includes(state)) needingInput.add(job_id);
    }
  }
  return { existing, needingInput };
}
