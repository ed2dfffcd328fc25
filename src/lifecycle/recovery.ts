import type { Spool } from '../files/spool.ts';
import type { Workspaces } from '../files/workspaces.ts';
import { clearLeases, jobsAwaitingInput, jobsWithoutFiles } from '../store/job-queue.ts';
import type { Db } from '../store/tables.ts';

/**
 * Puts in order what an earlier life left, before anything is served: its leases are void, because the data folder
 * is ours alone now, and zips and workspaces that no job has a use for are swept away.
 */
export async function recover(db: Db, spool: Spool, workspaces: Workspaces): Promise<void> {
  await clearLeases(db);
  await spool.open();
  const awaited = await jobsAwaitingInput(db);
  for (const jobId of await spool.list()) {
    if (!awaited.has(jobId)) await spool.remove(jobId);
  }
  for (const jobId of await jobsWithoutFiles(db, await workspaces.list())) await workspaces.remove(jobId);
}
