import type { Spool } from '../files/spool.ts';
import { clearLeases, jobsAwaitingInput } from '../store/jobs.ts';
import type { Db } from '../store/tables.ts';

/**
 * Puts in order what an earlier life left, before anything is served: its leases are void, because the data folder
 * is ours alone now, and zips that no job waits for are swept away.
 */
export async function recover(db: Db, spool: Spool): Promise<void> {
  await clearLeases(db);
  await spool.open();
  const awaited = await jobsAwaitingInput(db);
  for (const jobId of await spool.list()) {
    if (!awaited.has(jobId)) await spool.remove(jobId);
  }
}
