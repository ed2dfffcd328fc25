import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import { type JobRecord, lockJobsVersion, toJobRecord } from './jobs.ts';

/** Selects jobs whose files still exist. The state is a literal, so that the planner can use a partial index. */
function selectFinishedJobs(db: Db, projectId: number, endedBefore: number, limit: number) {
  const jobs = db.selectFrom('jobs').selectAll().where('projectId', '=', projectId);
  return jobs.where('state', '=', sql.lit('ended')).where('endedAt', '<=', endedBefore).limit(limit);
}

/** Lists jobs that ended before a time, and whose owners have not been notified of the deletion of their files. */
export async function listJobsToNotify(
  db: Db,
  projectId: number,
  endedBefore: number,
  limit: number,
): Promise<JobRecord[]> {
  const jobs = selectFinishedJobs(db, projectId, endedBefore, limit).where('expiresAt', 'is', null);
  return (await jobs.orderBy('endedAt').execute()).map(toJobRecord);
}

/**
 * Sets when the files are deleted. Returns true to exactly one caller, who notifies the owner. The owner's row is locked
 * before the job's, as in all other writes of jobs, so that transactions do not deadlock.
 */
export async function setExpiry(
  tx: Tx,
  { id, owner }: Pick<JobRecord, 'id' | 'owner'>,
  expiresAt: number,
): Promise<boolean> {
  await lockJobsVersion(tx, owner, { increment: false });
  const result = await tx
    .updateTable('jobs')
    .set({ expiresAt })
    .where('id', '=', id)
    .where('state', '=', 'ended')
    .where('expiresAt', 'is', null)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** Lists jobs that ended before a time, and whose time of deletion has come. */
export async function listExpiredJobs(
  db: Db,
  projectId: number,
  { now, endedBefore }: { now: number; endedBefore: number },
  limit: number,
): Promise<JobRecord[]> {
  const jobs = selectFinishedJobs(db, projectId, endedBefore, limit).where('expiresAt', '<=', now);
  return (await jobs.orderBy('expiresAt').execute()).map(toJobRecord);
}

/** For a project that keeps its files. If files expire again later, owners are notified again. */
export async function clearExpiries(db: Db, projectId: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ expiresAt: null })
    .where('projectId', '=', projectId)
    .where('state', '=', sql.lit('ended'))
    .where('expiresAt', 'is not', null)
    .execute();
}
