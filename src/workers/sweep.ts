import type { Spool } from '../files/spool/spool.ts';
import type { Db } from '../store/database/tables.ts';
import { jobsOfInputs, jobsWithoutFiles } from '../store/jobs/job-queue.ts';
import type { SystemDeps } from './system-context.ts';

/**
 * Sweeps away what earlier lives left in the spool: uploads that broke off, and zips that no job has a use for. Where
 * others work beside us, what no job is known for must be so old that it cannot be theirs.
 */
export async function sweepSpool(db: Db, spool: Spool, staleMs: number): Promise<void> {
  await spool.removeStaleUploads(staleMs);
  // First the files: the job of one that comes in after this look is not missed.
  const jobIds = await spool.list();
  const stale = new Set(await spool.list(staleMs));
  const { awaited, known } = await jobsOfInputs(db, jobIds);
  for (const jobId of jobIds) {
    if (!awaited.has(jobId) && (known.has(jobId) || stale.has(jobId))) await spool.remove(jobId);
  }
}

/** Removes the files that no job has a use for. A system that is out of reach keeps them until it is next taken up. */
export async function sweepWorkspaces({ db, system, workspaces, log }: SystemDeps): Promise<void> {
  try {
    for (const jobId of await jobsWithoutFiles(db, await workspaces.list())) await workspaces.remove(jobId);
  } catch (error) {
    log.warn({ err: error, hpc: system.name }, 'the workspaces of a system cannot be swept now');
  }
}
