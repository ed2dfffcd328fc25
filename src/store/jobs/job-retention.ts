import { sql } from 'kysely';
import type { Db, Tx } from '../database/handle.ts';
import { type JobRecord, lockJobsVersion, toJobRecord } from './jobs.ts';

/** Jobs whose files are still there. Written out, not bound, so that the planner takes the index of these jobs only. */
function finishedJobs(db: Db, projectId: number) {
  return db.selectFrom('jobs').where('project_id', '=', projectId).where('state', '=', sql.lit('ended'));
}

/** Jobs of a project that ended before a moment, and whose owners have not been told that their files will go. */
export async function listJobsToNotify(
  db: Db,
  projectId: number,
  endedBefore: number,
  most: number,
): Promise<JobRecord[]> {
  const rows = await finishedJobs(db, projectId)
    .selectAll()
    .where('expires_at', 'is', null)
    .where('ended_at', '<=', endedBefore)
    .orderBy('ended_at')
    .limit(most)
    .execute();
  return rows.map(toJobRecord);
}

/** True for the one who is to tell the owner, whose row is locked before the job's, as by all who write jobs. */
export async function setExpiry(
  tx: Tx,
  { id, owner }: Pick<JobRecord, 'id' | 'owner'>,
  expiresAt: number,
): Promise<boolean> {
  await lockJobsVersion(tx, owner, { increment: false });
  const result = await tx
    .updateTable('jobs')
    .set({ expires_at: expiresAt })
    .where('id', '=', id)
    .where('state', '=', 'ended')
    .where('expires_at', 'is', null)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/** Jobs of a project that ended before a moment, and whose files are to go by now, as was announced. */
export async function listExpiredJobs(
  db: Db,
  projectId: number,
  { now, endedBefore }: { now: number; endedBefore: number },
  most: number,
): Promise<JobRecord[]> {
  const rows = await finishedJobs(db, projectId)
    .selectAll()
    .where('expires_at', '<=', now)
    .where('ended_at', '<=', endedBefore)
    .orderBy('expires_at')
    .limit(most)
    .execute();
  return rows.map(toJobRecord);
}

/** Takes announcements back, in a project that keeps its files: should that change, they are made anew. */
export async function clearExpiries(db: Db, projectId: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ expires_at: null })
    .where('project_id', '=', projectId)
    .where('state', '=', sql.lit('ended'))
    .where('expires_at', 'is not', null)
    .execute();
}
