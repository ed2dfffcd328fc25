import type { Spool } from '../files/spool/spool.ts';
import type { Db } from '../store/database/handle.ts';
import { findInputJobs, listJobsWithUnneededFiles } from '../store/jobs/job-queue.ts';
import type { SystemDeps } from './system-deps.ts';

/**
 * Removes interrupted uploads from the spool, and zips that no job needs. A zip without a job is removed only when it is
 * older than `staleMs`: a younger one may be an upload that another instance is about to commit.
 */
export async function cleanUpSpool(db: Db, spool: Spool, staleMs: number): Promise<void> {
  await spool.removeStaleUploads(staleMs);
  // The files are listed before the jobs are read, so that the job of a zip that arrives in between is not missed.
  const jobIds = await spool.list();
  const staleJobIds = new Set(await spool.list(staleMs));
  const { existing, needingInput } = await findInputJobs(db, jobIds);
  for (const jobId of jobIds) {
    if (!needingInput.has(jobId) && (existing.has(jobId) || staleJobIds.has(jobId))) await spool.remove(jobId);
  }
}

/** Removes workspaces that no job needs. If the system is unreachable, they stay until its lease is next acquired. */
export async function cleanUpWorkspaces({ db, system, workspaces, log }: SystemDeps): Promise<void> {
  try {
    for (const jobId of await listJobsWithUnneededFiles(db, await workspaces.list())) await workspaces.remove(jobId);
  } catch (error) {
    log.warn({ err: error, hpc: system.name }, 'workspace cleanup failed');
  }
}
