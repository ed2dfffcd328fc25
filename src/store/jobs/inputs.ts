import type { Db, Tx } from '../database/handle.ts';
import { rowBuilder } from '../database/inserts.ts';

/**
 * The zips of jobs that are waiting for their engine, as far as they are small: they come with the row of their job, and go
 * when the engine has it, in the same transaction. Others are files of the spool.
 */
export const toInputRows = rowBuilder('inputs', ['job', 'content']);

/** Undefined for a job that came without one, whose zip is a file, or who has been with an engine. */
export async function findInput(db: Db, job: number): Promise<Buffer | undefined> {
  const row = await db.selectFrom('inputs').select('content').where('job', '=', job).executeTakeFirst();
  return row?.content;
}

export async function deleteInput(tx: Tx, job: number): Promise<void> {
  await tx.deleteFrom('inputs').where('job', '=', job).execute();
}
