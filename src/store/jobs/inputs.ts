import type { Db, Tx } from '../database/handle.ts';

// Small zips of jobs that are not yet submitted to their engine. A zip is inserted in the transaction of its job, and
// deleted in the transaction that records the submission. Large zips are files in the spool.

/** Returns undefined for a job without a zip, with a zip in the spool, or already submitted to its engine. */
export async function findInput(db: Db, job: number): Promise<Buffer | undefined> {
  const row = await db.selectFrom('inputs').select('content').where('job', '=', job).executeTakeFirst();
  return row?.content;
}

export async function deleteInput(tx: Tx, job: number): Promise<void> {
  await tx.deleteFrom('inputs').where('job', '=', job).execute();
}
