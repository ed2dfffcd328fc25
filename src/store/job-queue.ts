import { sql } from 'kysely';
import type { JobState } from '../domain/job.ts';
import { type JobRecord, jobRecord } from './jobs.ts';
import type { Db } from './tables.ts';

/** What the lifecycle looks for: jobs to submit, to follow, to cancel, and the files that nobody has a use for. */
const toDispatch: JobState[] = ['accepted', 'submitting'];
const unfinished: JobState[] = ['accepted', 'submitting', 'queued', 'running'];

/**
 * Leases the jobs of a system that are due to be submitted. Whoever holds the lease, and nobody else, may carry
 * such a job on until the lease runs out. The lease is also the stored intent to submit: a job that was tried
 * before may be known to the engine already.
 */
export async function leaseDueJobs(
  db: Db,
  hpc: string,
  lease: { owner: string; now: number; until: number },
  most: number,
): Promise<JobRecord[]> {
  const due = db
    .selectFrom('jobs')
    .select('id')
    .where('hpc', '=', hpc)
    .where('state', 'in', toDispatch)
    .where('due_at', '<=', lease.now)
    .where('lease_until', '<=', lease.now)
    .orderBy('id')
    .limit(most);
  const rows = await db
    .updateTable('jobs')
    .set((eb) => ({
      state: 'submitting',
      tries: eb('tries', '+', 1),
      lease_owner: lease.owner,
      lease_until: lease.until,
    }))
    .where('id', 'in', due)
    // Said again: another one may have leased them while this waited for them.
    .where('state', 'in', toDispatch)
    .where('lease_until', '<=', lease.now)
    .returningAll()
    .execute();
  return rows.map(jobRecord).sort((a, b) => a.id - b.id);
}

/** When the next job of a system falls due, leases included; undefined when none is waiting. */
export async function nextDueAt(db: Db, hpc: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('jobs')
    .select((eb) =>
      eb.fn.min<number | null>(sql`case when due_at > lease_until then due_at else lease_until end`).as('at'),
    )
    .where('hpc', '=', hpc)
    .where('state', 'in', toDispatch)
    .executeTakeFirst();
  return row?.at ?? undefined;
}

/** Keeps a lease that is still one's own for longer. */
export async function renewLease(db: Db, id: number, leaseOwner: string, until: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ lease_until: until })
    .where('id', '=', id)
    .where('lease_owner', '=', leaseOwner)
    .execute();
}

/** Gives a job back to be tried again later. */
export async function postponeJob(db: Db, id: number, leaseOwner: string, dueAt: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ due_at: dueAt, lease_owner: null, lease_until: 0 })
    .where('id', '=', id)
    .where('lease_owner', '=', leaseOwner)
    .execute();
}

/** Takes a queued job back from an engine that lost it before it began, to be submitted anew. */
export async function returnToDispatcher(db: Db, jobId: string, engineRef: string, now: number): Promise<boolean> {
  const row = await db
    .updateTable('jobs')
    .set({ state: 'submitting', engine_ref: null, due_at: now, lease_owner: null, lease_until: 0 })
    .where('job_id', '=', jobId)
    .where('state', '=', 'queued')
    .where('engine_ref', '=', engineRef)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Lets go of all leases: for a server that has just taken the data folder for itself. */
export async function clearLeases(db: Db): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ lease_owner: null, lease_until: 0, due_at: 0 })
    .where('state', 'in', toDispatch)
    .execute();
}

/** The jobs of a system that its engine has, with the engine's ids. */
export async function jobsInEngine(db: Db, hpc: string): Promise<Map<string, string>> {
  const rows = await db
    .selectFrom('jobs')
    .select(['job_id', 'engine_ref'])
    .where('hpc', '=', hpc)
    .where('state', 'in', ['queued', 'running'])
    .execute();
  return new Map(rows.map((row) => [row.job_id, row.engine_ref ?? '']));
}

export async function unfinishedJobs(db: Db, hpc: string): Promise<JobRecord[]> {
  const rows = await db
    .selectFrom('jobs')
    .selectAll()
    .where('hpc', '=', hpc)
    .where('state', 'in', unfinished)
    .orderBy('id')
    .execute();
  return rows.map(jobRecord);
}

/** Notes that its owner wants a job to end; for one that has ended it changes nothing. */
export async function requestCancellation(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set((eb) => ({ cancel_requested_at: eb.fn.coalesce('cancel_requested_at', eb.val(now)) }))
    .where('id', '=', id)
    .where('state', 'in', unfinished)
    .execute();
}

/** The jobs of a system that an engine has, and whose owners want them to end. */
export async function jobsToCancel(db: Db, hpc: string): Promise<string[]> {
  const rows = await db
    .selectFrom('jobs')
    .select('job_id')
    .where('hpc', '=', hpc)
    .where('cancel_requested_at', 'is not', null)
    .where('state', 'in', ['queued', 'running'])
    .execute();
  return rows.map((row) => row.job_id);
}

/** Of these jobs, the ones whose files are not wanted any more: they are deleted, or there is no such job. */
export async function jobsWithoutFiles(db: Db, jobIds: readonly string[]): Promise<string[]> {
  const kept = new Set<string>();
  // A statement binds a limited number of values.
  for (let first = 0; first < jobIds.length; first += 1000) {
    const rows = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('job_id', 'in', jobIds.slice(first, first + 1000))
      .where('state', '<>', 'deleted')
      .execute();
    for (const row of rows) kept.add(row.job_id);
  }
  return jobIds.filter((jobId) => !kept.has(jobId));
}

/** Of these job ids, the ones whose zip is still needed. */
export async function jobsAwaitingInput(db: Db): Promise<Set<string>> {
  const rows = await db.selectFrom('jobs').select('job_id').where('state', 'in', toDispatch).execute();
  return new Set(rows.map((row) => row.job_id));
}
