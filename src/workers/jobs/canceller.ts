import { listJobsToCancel } from '../../store/jobs/job-queue.ts';
import { idleIntervalMs, type Loop, startLoop } from '../loop.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

const minRetryMs = 2000;

/**
 * Forwards cancellation requests to the engine. The watcher observes the end of a cancelled job like any other end. Until
 * then the request is repeated, which is harmless, but no more often than an idle engine is polled.
 */
export function startCanceller({ db, system, engine, maxPollMs, log }: LeasedSystemDeps): Loop {
  return startLoop(async (signal) => {
    const jobIds = await listJobsToCancel(db, system.name).catch((error) => {
      log.error({ err: error, hpc: system.name }, 'reading jobs to cancel failed, will retry');
      return null;
    });
    if (jobIds === null) return minRetryMs;
    for (const jobId of jobIds) {
      try {
        await engine.cancel(jobId, signal);
      } catch (error) {
        log.warn({ err: error, hpc: system.name, jobId }, 'job cancellation failed, will retry');
      }
    }
    return jobIds.length > 0 ? Math.max(minRetryMs, maxPollMs) : idleIntervalMs;
  });
}
