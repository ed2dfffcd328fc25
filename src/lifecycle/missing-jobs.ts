import type { Observation } from '../domain/transition.ts';
import { returnToDispatcher } from '../store/job-queue.ts';
import type { SystemWorker } from './system-worker.ts';

/** Looks in a row that must not mention a job before its system is thought to have lost it. */
const looksUntilLost = 3;
const lostAfterMs = 10_000;

interface Missing {
  since: number;
  looks: number;
  /** Whether it has been looked whether it began; once is enough, since nothing begins unseen. */
  examined: boolean;
}

/**
 * Minds the jobs that an engine should have and does not mention. That is no end, and changes no state: after the
 * configured time it is told to the operator. Only a job that certainly never began is brought to the engine again: a
 * controller that is killed can forget what it has just accepted.
 */
export function createMissingJobs(worker: SystemWorker, onReturned: () => void) {
  const { tenure, engine, system, workspaces, missingAlarmMs, metrics, now, log } = worker;
  const missing = new Map<string, Missing>();
  const alarmed = new Set<string>();

  async function bringBack(jobId: string, ref: string, signal: AbortSignal): Promise<void> {
    if (await engine.mayHaveBegun(workspaces.pathsOf(jobId), signal)) return;
    if (!(await tenure.write((tx) => returnToDispatcher(tx, jobId, ref, now())))) return;
    log.warn({ hpc: system.name, jobId, ref }, 'the system lost this job before it began; it is submitted again');
    onReturned();
  }

  return {
    /** Takes note of one look that succeeded. */
    async note(expected: ReadonlyMap<string, string>, observations: readonly Observation[], signal: AbortSignal) {
      const mentioned = new Set(observations.map((observation) => observation.jobId));
      for (const jobId of missing.keys()) {
        if (!mentioned.has(jobId) && expected.has(jobId)) continue;
        missing.delete(jobId);
        alarmed.delete(jobId);
      }
      for (const [jobId, ref] of expected) {
        if (mentioned.has(jobId)) continue;
        const entry = missing.get(jobId) ?? { since: now(), looks: 0, examined: false };
        const { since } = entry;
        const forMs = now() - since;
        entry.looks += 1;
        missing.set(jobId, entry);
        if (!entry.examined && entry.looks >= looksUntilLost && forMs >= lostAfterMs) {
          await bringBack(jobId, ref, signal);
          entry.examined = true;
        }
        if (forMs < missingAlarmMs || alarmed.has(jobId)) continue;
        alarmed.add(jobId);
        log.error({ hpc: system.name, jobId, since }, 'the system has not mentioned this job for a long time');
      }
      metrics.set('bursar_jobs_missing', { hpc: system.name }, alarmed.size);
    },
  };
}
