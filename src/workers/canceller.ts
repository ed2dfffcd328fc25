import { jobsToCancel } from '../store/jobs/job-queue.ts';
import { idleMs, type Loop, startLoop } from './loop.ts';
import type { LeasedSystem } from './system-context.ts';

/** At the least; a system that is looked at less often is also asked less often. */
const againMs = 2000;

/**
 * Passes on to the engine what owners want to end. The watcher sees the end, like any other; until it has, the wish is
 * repeated now and then, which is harmless.
 */
export function startCanceller({ db, system, engine, idleWatchMs, log }: LeasedSystem): Loop {
  return startLoop(async (signal) => {
    const jobIds = await jobsToCancel(db, system.name).catch((error) => {
      log.error({ err: error, hpc: system.name }, 'cancelling failed');
      return null;
    });
    if (jobIds === null) return againMs;
    for (const jobId of jobIds) {
      try {
        await engine.cancel(jobId, signal);
      } catch (error) {
        log.warn({ err: error, hpc: system.name, jobId }, 'job not cancelled yet');
      }
    }
    return jobIds.length > 0 ? Math.max(againMs, idleWatchMs) : idleMs;
  });
}
