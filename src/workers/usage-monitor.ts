import { findExceededLimits } from '../domain/jobs/file-limits.ts';
import { listRunningJobs, requestCancellation } from '../store/jobs/job-queue.ts';
import { type Loop, startLoop } from './loop.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

/** Pauses last at least this many times as long as a measurement, however many files there are. */
const minPauseFactor = 10;

/**
 * Measures the files of all running jobs of a system from time to time, and cancels the jobs that exceed a limit: without
 * this, a job could fill the disk until its end. One measurement at a time, beside the polls of the watcher. A job that
 * cannot be measured goes on.
 */
export function startUsageMonitor(deps: LeasedSystemDeps, onCancelled: () => void): Loop {
  const { system, measureMs, log } = deps;
  return startLoop(async (signal) => {
    const startedAt = performance.now();
    try {
      if (await cancelExceeding(deps, signal)) onCancelled();
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc: system.name }, 'running jobs not measured, will retry');
    }
    return Math.max(measureMs, (performance.now() - startedAt) * minPauseFactor);
  });
}

/** One measurement. Returns whether a job is to be cancelled. */
export async function cancelExceeding(deps: LeasedSystemDeps, signal: AbortSignal): Promise<boolean> {
  const { db, lease, system, workspaces, now, log } = deps;
  const jobIds = (await listRunningJobs(db, system.name)).map(({ jobId }) => jobId);
  if (jobIds.length === 0) return false;
  const maxEntries = system.limits.files;
  const usages = await workspaces.measure(jobIds, signal, maxEntries);
  // Measuring can take minutes. The accounts contain the files of the jobs that have ended meanwhile.
  const running = await listRunningJobs(db, system.name);
  const jobs = running.flatMap(({ jobId, heldBytes, spacePool, spaceCap }) => {
    const usage = usages.get(jobId);
    return usage === undefined ? [] : { jobId, usage, heldBytes, accounts: [spacePool, spaceCap] };
  });
  const available = new Map(
    running.flatMap(({ spacePool, spacePoolLeft, spaceCap, spaceCapLeft }) => [
      [spacePool, spacePoolLeft],
      [spaceCap, spaceCapLeft],
    ]),
  );
  const exceeded = findExceededLimits(jobs, available, maxEntries);
  for (const { id, jobId } of running) {
    const limit = exceeded.get(jobId);
    if (limit === undefined) continue;
    await lease.transaction((tx) => requestCancellation(tx, id, { by: limit, at: now() }));
    log.warn({ hpc: system.name, jobId, limit, ...usages.get(jobId) }, 'job exceeds a limit, cancelling it');
  }
  return exceeded.size > 0;
}
