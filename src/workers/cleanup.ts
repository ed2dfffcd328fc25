import { doctorJobPrefix } from '../domain/jobs/job.ts';
import { msPerHour } from '../domain/units.ts';
import type { Spool } from '../files/spool/spool.ts';
import type { Db } from '../store/database/handle.ts';
import { findInputJobs, listJobsWithUnneededFiles } from '../store/jobs/inputs.ts';
import type { SystemDeps } from './jobs/system-deps.ts';
import { type Loop, startLoop } from './loop.ts';

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

/** Removes workspaces that no job needs. Those of `bursar doctor` have no job, and are removed by the doctor itself. */
async function cleanUpWorkspaces({ db, workspaces }: SystemDeps, signal: AbortSignal): Promise<void> {
  const jobIds = (await workspaces.list(signal)).filter((jobId) => !jobId.startsWith(doctorJobPrefix));
  for (const jobId of await listJobsWithUnneededFiles(db, jobIds)) {
    signal.throwIfAborted();
    await workspaces.remove(jobId, signal);
  }
}

const intervalMs = msPerHour;
const delayAfterErrorMs = 60_000;

/**
 * Removes files that no job needs: when the lease of the system is acquired, for files that a crash left, and every hour,
 * for workspaces of deleted jobs that could not be removed because the system was unreachable.
 */
export function startCleanup(deps: SystemDeps): Loop {
  const { db, spool, staleMs, system, log } = deps;
  return startLoop(async (signal) => {
    const results = await Promise.allSettled([cleanUpSpool(db, spool, staleMs), cleanUpWorkspaces(deps, signal)]);
    const failed = results.filter((result) => result.status === 'rejected');
    for (const { reason } of signal.aborted ? [] : failed)
      log.warn({ err: reason, hpc: system.name }, 'cleanup failed, will retry');
    return failed.length === 0 ? intervalMs : delayAfterErrorMs;
  });
}
