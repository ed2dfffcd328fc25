import { checkFileLimits } from '../domain/jobs/file-limits.ts';
import { listRunningJobs, requestCancellation } from '../store/jobs/job-queue.ts';
import type { LeasedSystemDeps } from './jobs/system-deps.ts';
import { type Loop, startLoop } from './loop.ts';

/** Pauses last at least this many times as long as a measurement, however many files there are. */
const minPauseFactor = 10;

/**
 * Measures the files of all running jobs of a system from time to time, and cancels the jobs that exceed a limit: without
 * this, a job could fill the disk until its end. One measurement at a time, beside the polls of the watcher. A job that
 * cannot be measured goes on.
 */
export function startUsageMonitor(deps: LeasedSystemDeps, onCancelled: () => void): Loop {
  const { system, measureMs, log } = deps;
  const cancelExceeding = createUsageCheck(deps);
  return startLoop(async (signal) => {
    const startedAt = performance.now();
    try {
      if (await cancelExceeding(signal)) onCancelled();
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc: system.name }, 'running jobs not measured, will retry');
    }
    return Math.max(measureMs, (performance.now() - startedAt) * minPauseFactor);
  });
}

/** Returns a function that measures the running jobs once. It returns whether a job is to be cancelled. */
export function createUsageCheck({ db, lease, system, workspaces, now, log }: LeasedSystemDeps) {
  const maxEntries = system.limits.files;
  /** By job id, from the last measurement. */
  let withinQuotaBytes: ReadonlyMap<string, number> | undefined;

  return async (signal: AbortSignal): Promise<boolean> => {
    const jobIds = (await listRunningJobs(db, system.name)).map(({ jobId }) => jobId);
    const usages = jobIds.length === 0 ? new Map() : await workspaces.measure(jobIds, signal, maxEntries);
    // Measuring can take minutes. The accounts contain the files of the jobs that have ended meanwhile.
    const running = jobIds.length === 0 ? [] : await listRunningJobs(db, system.name);
    // After a restart the earlier measurement is not known. Counting all files as new could end a job within its limit.
    const withinQuotaBytesOf = (jobId: string) =>
      withinQuotaBytes ? (withinQuotaBytes.get(jobId) ?? 0) : Number.POSITIVE_INFINITY;
    const jobs = running.flatMap(({ jobId, heldBytes, spacePool, spaceCap }) => {
      const usage = usages.get(jobId);
      if (usage === undefined) return [];
      return { jobId, usage, heldBytes, withinQuotaBytes: withinQuotaBytesOf(jobId), accounts: [spacePool, spaceCap] };
    });
    const available = new Map(
      running.flatMap(({ spacePool, spacePoolLeft, spaceCap, spaceCapLeft }) => [
        [spacePool, spacePoolLeft],
        [spaceCap, spaceCapLeft],
      ]),
    );
    const check = checkFileLimits(jobs, available, maxEntries);
    withinQuotaBytes = check.withinQuotaBytes;
    for (const { id, jobId } of running) {
      const limit = check.exceeded.get(jobId);
      if (limit === undefined) continue;
      await lease.transaction((tx) => requestCancellation(tx, id, { by: limit, at: now() }));
      log.warn({ hpc: system.name, jobId, limit, ...usages.get(jobId) }, 'job exceeds a limit, cancelling it');
    }
    return check.exceeded.size > 0;
  };
}
