import type { Spool } from '../files/spool.ts';
import type { Workspaces } from '../files/workspaces.ts';
import { freeHeldKeys } from '../store/idempotency.ts';
import { clearLeases, jobsAwaitingInput, jobsWithoutFiles } from '../store/job-queue.ts';
import type { Db } from '../store/tables.ts';
import type { Log } from './system-worker.ts';

/**
 * Puts in order what an earlier life left, before anything is served: its leases and claims are void, because the
 * data folder is ours alone now, and zips that no job has a use for are swept away.
 */
export async function recover(db: Db, spool: Spool): Promise<void> {
  await clearLeases(db);
  await freeHeldKeys(db);
  await spool.open();
  const awaited = await jobsAwaitingInput(db);
  for (const jobId of await spool.list()) {
    if (!awaited.has(jobId)) await spool.remove(jobId);
  }
}

/** Removes the files of jobs that are deleted. A system that is out of reach keeps them until the next start. */
export async function sweepWorkspaces(db: Db, workspacesOf: ReadonlyMap<string, Workspaces>, log: Log): Promise<void> {
  for (const [hpc, workspaces] of workspacesOf) {
    try {
      for (const jobId of await jobsWithoutFiles(db, await workspaces.list())) await workspaces.remove(jobId);
    } catch (error) {
      log.warn({ err: error, hpc }, 'the workspaces of a system cannot be swept now');
    }
  }
}
