import { sql } from 'kysely';
import type { JobState } from '../../domain/jobs/job.ts';
import { chunks } from '../database/chunks.ts';
import type { Db, Tx } from '../database/handle.ts';
import { prepareQuery } from '../database/prepared.ts';
import { type JobRecord, toJobRecord } from './jobs.ts';

export const dispatchableStates: JobState[] = ['accepted', 'submitting'];

/**
 * The conditions of partial indexes, word for word: the databases use a partial index only for a query that repeats its
 * condition. Otherwise each poll would scan all finished jobs.
 */
export const isUnfinished = sql<boolean>`state in ('accepted', 'submitting', 'queued', 'running')`;
const mustCancel = sql<boolean>`cancel_requested_at is not null and state in ('submitting', 'queued', 'running')`;

/**
 * Claims the jobs of a system that are due for submission, and increments their `tries`. The claim stores the intent to
 * submit: a job with more than one try may already be known to the engine.
 */
export async function claimDueJobs(
  tx: Tx,
  hpc: string,
  { now, limit, excludedIds }: { now: number; limit: number; excludedIds: readonly number[] },
): Promise<JobRecord[]> {
  const due = selectDispatchable(tx, hpc, excludedIds)
    .select('id')
    .where('due_at', '<=', now)
    .orderBy('id')
    .limit(limit);
  const rows = await tx
    .updateTable('jobs')
    .set((eb) => ({ state: 'submitting', tries: eb('tries', '+', 1) }))
    .where('id', 'in', due)
    .where('state', 'in', dispatchableStates)
    .returningAll()
    .execute();
  return rows.map(toJobRecord).sort((a, b) => a.id - b.id);
}

/** Returns when the next job of a system is due for submission; undefined if there is none. */
export async function findNextDueAt(db: Db, hpc: string, excludedIds: readonly number[]): Promise<number | undefined> {
  const row = await selectDispatchable(db, hpc, excludedIds)
    .select((eb) => eb.fn.min<number | null>('due_at').as('at'))
    .executeTakeFirst();
  return row?.at ?? undefined;
}

function selectDispatchable(db: Db, hpc: string, excludedIds: readonly number[]) {
  const query = db
    .selectFrom('jobs')
    .where('hpc', '=', hpc)
    .where(isUnfinished)
    .where('state', 'in', dispatchableStates);
  return excludedIds.length === 0 ? query : query.where('id', 'not in', excludedIds);
}

/**
 * Lets the dispatcher retry a job later, or at once if it was cancelled since it was claimed. A try that did not reach the
 * engine is not counted: then the next one need not ask the engine whether it has the job.
 */
export async function postponeJob(
  tx: Tx,
  job: JobRecord,
  { dueAt, hasReachedEngine }: { dueAt: number; hasReachedEngine: boolean },
): Promise<void> {
  await tx
    .updateTable('jobs')
    .set((eb) => ({
      due_at:
        job.cancelRequestedBy === null
          ? eb.case().when('cancel_requested_at', 'is', null).then(dueAt).else(0).end()
          : dueAt,
      ...(hasReachedEngine ? {} : { tries: job.tries - 1 }),
    }))
    .where('id', '=', job.id)
    .where('state', 'in', dispatchableStates)
    .execute();
}

/** Lets the dispatcher resubmit a queued job that its engine lost. Returns false if the job has changed. */
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

/** Lists the unfinished jobs of a system by job id, with only the columns that each poll needs. */
export async function listUnfinishedJobs(db: Db, hpc: string): Promise<Map<string, UnfinishedJob>> {
  return new Map((await selectUnfinished(db, hpc).execute()).map((row) => [row.job_id, row]));
}

/** Finds those of the given jobs that are unfinished. */
export async function findUnfinishedJobs(
  db: Db,
  hpc: string,
  jobIds: readonly string[],
): Promise<Map<string, UnfinishedJob & { acceptedAt: number }>> {
  const jobs = new Map<string, UnfinishedJob & { acceptedAt: number }>();
  for (const chunk of chunks(jobIds)) {
    const query = selectUnfinished(db, hpc).select('accepted_at as acceptedAt').where('job_id', 'in', chunk);
    const rows = await query.execute();
    for (const row of rows) jobs.set(row.job_id, row);
  }
  return jobs;
}

function selectUnfinished(db: Db, hpc: string) {
  const columns = ['job_id', 'state', 'engine_ref as engineRef'] as const;
  return db.selectFrom('jobs').select(columns).where('hpc', '=', hpc).where(isUnfinished);
}

/**
 * Records the request of a user to cancel a job. Returns false, without a change, if the job has ended or an earlier
 * request is stored. A job that waits for its next try to be submitted becomes due, so that the dispatcher ends it at once.
 */
export async function requestCancellation(
  tx: Tx,
  id: number,
  { by, at }: { by: string; at: number },
): Promise<boolean> {
  const result = await tx
    .updateTable('jobs')
    .set({ cancel_requested_at: at, cancel_requested_by: by, due_at: at })
    .where('id', '=', id)
    .where('cancel_requested_at', 'is', null)
    .where(isUnfinished)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** Lists the jobs to cancel that are known to the engine of a system. */
export async function listJobsToCancel(db: Db, hpc: string): Promise<string[]> {
  const rows = await selectToCancel(db, {});
  return rows.filter((row) => row.hpc === hpc && row.state !== 'submitting').map((row) => row.job_id);
}

/** Lists the ids of the jobs to cancel that are being submitted. */
export async function listSubmissionsToCancel(db: Db, hpc: string): Promise<number[]> {
  const rows = await selectToCancel(db, {});
  return rows.filter((row) => row.hpc === hpc && row.state === 'submitting').map((row) => row.id);
}

/** For all systems: with a condition on `hpc` SQLite would choose an index of all jobs. Jobs to cancel are few. */
const selectToCancel = prepareQuery((db) =>
  db.selectFrom('jobs').select(['id', 'job_id', 'hpc', 'state']).where(mustCancel),
);

/** Returns the given jobs whose files are not needed: deleted jobs, jobs that ended before submission, unknown jobs. */
export async function listJobsWithUnneededFiles(db: Db, jobIds: readonly string[]): Promise<string[]> {
  const needed = new Set<string>();
  for (const chunk of chunks(jobIds)) {
    const rows = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('job_id', 'in', chunk)
      .where('state', '<>', 'deleted')
      .where((eb) => eb.or([eb('state', '<>', 'ended'), eb('engine_ref', 'is not', null)]))
      .execute();
    for (const row of rows) needed.add(row.job_id);
  }
  return jobIds.filter((jobId) => !needed.has(jobId));
}

/** Returns which of the given jobs exist, and which of them still need their zip. */
export async function findInputJobs(db: Db, jobIds: readonly string[]) {
  const existing = new Set<string>();
  const needingInput = new Set<string>();
  for (const chunk of chunks(jobIds)) {
    const rows = await db.selectFrom('jobs').select(['job_id', 'state']).where('job_id', 'in', chunk).execute();
    for (const { job_id, state } of rows) {
      existing.add(job_id);
      if (dispatchableStates.includes(state)) needingInput.add(job_id);
    }
  }
  return { existing, needingInput };
}
