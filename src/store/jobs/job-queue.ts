import { sql } from 'kysely';
import { chunks } from '../../domain/chunks.ts';
import type { JobState } from '../../domain/jobs/job.ts';
import type { Db, Tx } from '../database/handle.ts';
import { prepareQuery } from '../database/prepared.ts';
import type { Row } from '../database/tables.ts';
import { type JobRecord, toJobRecord } from './jobs.ts';

export const dispatchableStates: JobState[] = ['accepted', 'submitting'];

/** The `due_at` of a cancelled job: before every other job of its owner. */
export const cancelledDueAt = 0;

/**
 * The conditions of partial indexes, word for word: the databases use a partial index only for a query that repeats its
 * condition. Otherwise each poll would scan all finished jobs.
 */
export const isUnfinished = sql<boolean>`state in ('accepted', 'submitting', 'queued', 'running')`;
const mustCancel = sql<boolean>`cancel_requested_at is not null and state in ('submitting', 'queued', 'running')`;

/** A user with jobs that wait for their submission. */
export interface WaitingOwner {
  owner: string;
  /** When the first of the jobs is due. */
  dueAt: number;
}

/**
 * Lists the users whose jobs wait to be submitted to a system. It finds one user after the other in the index, so that
 * the cost depends on the number of users, not on the number of jobs.
 */
export async function listWaitingOwners(db: Db, hpc: string, excludedIds: readonly number[]): Promise<WaitingOwner[]> {
  const firstOwner = (state: string) => sql`(select min(owner) from jobs
    where hpc = ${hpc} and state = ${sql.lit(state)} and ${isUnfinished})`;
  const { rows } = await sql<{ owner: string; dueAt: number | null }>`
    with recursive waiting (state, owner) as (
      select cast('accepted' as text), ${firstOwner('accepted')} union all
      select cast('submitting' as text), ${firstOwner('submitting')} union all
      select state, (select min(owner) from jobs
        where hpc = ${hpc} and state = waiting.state and ${isUnfinished} and owner > waiting.owner)
      from waiting where owner is not null)
    select owner, (select min(due_at) from jobs
      where hpc = ${hpc} and state = waiting.state and ${isUnfinished} and owner = waiting.owner
        and id not in (${joinIds(excludedIds)})) as due_at
    from waiting where owner is not null`.execute(db);
  const dueTimes = new Map<string, number>();
  for (const { owner, dueAt } of rows) {
    if (dueAt !== null) dueTimes.set(owner, Math.min(dueAt, dueTimes.get(owner) ?? dueAt));
  }
  return [...dueTimes].map(([owner, dueAt]) => ({ owner, dueAt }));
}

/**
 * Claims the job of a user that is due for submission first, and increments its `tries`. Returns undefined if none is due.
 * The claim stores the intent to submit: a job with more than one try may already be known to the engine. With
 * `onlyCancelled` it claims only jobs that are to be ended instead.
 */
export async function claimDueJob(
  tx: Tx,
  hpc: string,
  owner: string,
  { now, excludedIds, onlyCancelled }: { now: number; excludedIds: readonly number[]; onlyCancelled: boolean },
): Promise<JobRecord | undefined> {
  // A job that was not claimed before has no later time: the index finds it without a search among all waiting jobs.
  const isDue = {
    accepted: sql`due_at <= ${onlyCancelled ? cancelledDueAt : now}`,
    submitting: onlyCancelled ? sql`due_at <= ${now} and cancel_requested_at is not null` : sql`due_at <= ${now}`,
  };
  // One search for each state: the index is ordered by the time only within a state.
  const first = (state: 'accepted' | 'submitting') => sql`select * from (select id, due_at from jobs
    where hpc = ${hpc} and state = ${sql.lit(state)} and ${isUnfinished} and owner = ${owner} and ${isDue[state]}
      and id not in (${joinIds(excludedIds)}) order by due_at, id limit 1) as ${sql.ref(`first_${state}`)}`;
  const due = sql<number>`(select id from (${first('accepted')} union all ${first('submitting')}) as due
    order by due_at, id limit 1)`;
  const row = await tx
    .updateTable('jobs')
    .set((eb) => ({ state: 'submitting', tries: eb('tries', '+', 1), claimedAt: now }))
    .where('id', '=', due)
    .where('state', 'in', dispatchableStates)
    .returningAll()
    .executeTakeFirst();
  return row && toJobRecord(row);
}

/**
 * A list that is never empty, because SQL has no empty one, and has one of few lengths: the databases prepare a statement for
 * each. No job has the id 0.
 */
function joinIds(ids: readonly number[]) {
  const length = Math.ceil((ids.length + 1) / idListStep) * idListStep;
  return sql.join([...ids, ...Array<number>(length - ids.length).fill(0)]);
}

const idListStep = 16;

/** Counts the jobs that the engine of a system has, by user. A user without any is missing. */
export async function countJobsInEngine(
  db: Db,
  hpc: string,
  owners: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const counts = new Map<string, number>();
  for (const chunk of chunks(owners)) {
    const rows = await db
      .selectFrom('jobs')
      .select((eb) => ['owner', eb.fn.countAll().as('count')])
      .where('hpc', '=', hpc)
      .where('state', 'in', ['queued', 'running'])
      .where(isUnfinished)
      .where('owner', 'in', chunk)
      .groupBy('owner')
      .execute();
    for (const { owner, count } of rows) counts.set(owner, Number(count));
  }
  return counts;
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
      dueAt:
        job.cancelRequestedBy === null
          ? eb.case().when('cancelRequestedAt', 'is', null).then(dueAt).else(cancelledDueAt).end()
          : dueAt,
      claimedAt: null,
      ...(hasReachedEngine ? {} : { tries: job.tries - 1 }),
    }))
    .where('id', '=', job.id)
    .where('state', 'in', dispatchableStates)
    .execute();
}

/**
 * Records why a job cannot be submitted to its system. `updateStatus` clears that when the job is submitted or ends.
 * Returns true if nothing was recorded before.
 */
export async function setDelay(tx: Tx, id: number, { at, reason }: { at: number; reason: string }): Promise<boolean> {
  const row = await tx
    .updateTable('jobs')
    .set((eb) => ({ delayedAt: eb.fn.coalesce('delayedAt', eb.val(at)), delayReason: reason }))
    .where('id', '=', id)
    .where('state', 'in', dispatchableStates)
    .returning('delayedAt')
    .executeTakeFirst();
  return row?.delayedAt === at;
}

/** Lets the dispatcher resubmit a queued job that its engine lost. Returns false if the job has changed. */
export async function requeueJob(tx: Tx, jobId: string, engineRef: string, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('jobs')
    .set({ state: 'submitting', engineRef: null, dueAt: now, claimedAt: null })
    .where('jobId', '=', jobId)
    .where('state', '=', 'queued')
    .where('engineRef', '=', engineRef)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

export type UnfinishedJob = Pick<Row<'jobs'>, 'state' | 'engineRef'>;

/** Lists the unfinished jobs of a system by job id, with only the columns that each poll needs. */
export async function listUnfinishedJobs(db: Db, hpc: string): Promise<Map<string, UnfinishedJob>> {
  return new Map((await selectUnfinished(db, hpc).execute()).map((row) => [row.jobId, row]));
}

/** Finds those of the given jobs that are unfinished. */
export async function findUnfinishedJobs(
  db: Db,
  hpc: string,
  jobIds: readonly string[],
): Promise<Map<string, UnfinishedJob & { acceptedAt: number }>> {
  const jobs = new Map<string, UnfinishedJob & { acceptedAt: number }>();
  for (const chunk of chunks(jobIds)) {
    const query = selectUnfinished(db, hpc).select('acceptedAt').where('jobId', 'in', chunk);
    const rows = await query.execute();
    for (const row of rows) jobs.set(row.jobId, row);
  }
  return jobs;
}

/** Returns those of the given jobs that have ended. */
export async function findEndedJobs(db: Db, hpc: string, jobIds: readonly string[]): Promise<Set<string>> {
  const ended = new Set<string>();
  for (const chunk of chunks(jobIds)) {
    const query = db.selectFrom('jobs').select('jobId').where('jobId', 'in', chunk).where('hpc', '=', hpc);
    for (const { jobId } of await query.where('terminal', '=', 1).execute()) ended.add(jobId);
  }
  return ended;
}

function selectUnfinished(db: Db, hpc: string) {
  const columns = ['jobId', 'state', 'engineRef'] as const;
  return db.selectFrom('jobs').select(columns).where('hpc', '=', hpc).where(isUnfinished);
}

/**
 * Lists the running jobs of a system that nobody has asked to cancel. One statement reads the jobs and the accounts, so
 * that the files of a job which ends at the same time count once: as those of a running job, or in the accounts.
 */
export async function listRunningJobs(db: Db, hpc: string) {
  return await db
    .selectFrom('jobs')
    .innerJoin('holds', 'holds.job', 'jobs.id')
    .innerJoin('accounts as pool', 'pool.id', 'holds.spacePool')
    .innerJoin('accounts as cap', 'cap.id', 'holds.spaceCap')
    .select([
      'jobs.id',
      'jobId',
      'spaceBytes as heldBytes',
      'spacePool',
      'spaceCap',
      sql<number>`pool.granted - pool.posted - pool.held - pool.overrun`.as('spacePoolLeft'),
      sql<number>`cap.granted - cap.posted - cap.held - cap.overrun`.as('spaceCapLeft'),
    ])
    .where('hpc', '=', hpc)
    .where(isUnfinished)
    .where('state', '=', 'running')
    .where('cancelRequestedAt', 'is', null)
    .execute();
}

/**
 * Records the request to cancel a job, by a user or because of a limit. Returns false, without a change, if the job has
 * ended or an earlier request is stored. A job that waits to be submitted becomes the first of its owner, so that the
 * dispatcher ends it at once.
 */
export async function requestCancellation(
  tx: Tx,
  id: number,
  { by, at }: { by: string; at: number },
): Promise<boolean> {
  const result = await tx
    .updateTable('jobs')
    .set({ cancelRequestedAt: at, cancelRequestedBy: by, dueAt: cancelledDueAt })
    .where('id', '=', id)
    .where('cancelRequestedAt', 'is', null)
    .where(isUnfinished)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** Lists the jobs to cancel that are known to the engine of a system. */
export async function listJobsToCancel(db: Db, hpc: string): Promise<string[]> {
  const rows = await selectToCancel(db, {});
  return rows.filter((row) => row.hpc === hpc && row.state !== 'submitting').map((row) => row.jobId);
}

/** Lists the ids of the jobs to cancel that are being submitted. */
export async function listSubmissionsToCancel(db: Db, hpc: string): Promise<number[]> {
  const rows = await selectToCancel(db, {});
  return rows.filter((row) => row.hpc === hpc && row.state === 'submitting').map((row) => row.id);
}

/** Lists the users with jobs to cancel that were claimed for submission before. */
export async function listOwnersOfCancelledSubmissions(db: Db, hpc: string): Promise<ReadonlySet<string>> {
  const rows = await selectToCancel(db, {});
  return new Set(rows.filter((row) => row.hpc === hpc && row.state === 'submitting').map((row) => row.owner));
}

/** For all systems: with a condition on `hpc` SQLite would choose an index of all jobs. Jobs to cancel are few. */
const selectToCancel = prepareQuery((db) =>
  db.selectFrom('jobs').select(['id', 'jobId', 'hpc', 'owner', 'state']).where(mustCancel),
);

/** Counts a try that another instance may have made: the dispatcher asks the engine for a job after its first try. */
export async function countPossibleTry(db: Db): Promise<void> {
  const jobs = db.updateTable('jobs').where('state', 'in', dispatchableStates);
  await jobs.set((eb) => ({ tries: eb('tries', '+', 1) })).execute();
}
