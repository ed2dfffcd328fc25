import type { Observation } from '../domain/transition.ts';
import type { SystemWorker } from './system-worker.ts';

/**
 * Notices jobs that an engine should have and does not mention. That is no end: it is told to the operator, once a job,
 * when it has lasted for the configured time.
 */
export function createMissingAlarm({ system, missingAlarmMs, metrics, now, log }: SystemWorker) {
  const missingSince = new Map<string, number>();
  const alarmed = new Set<string>();

  return {
    /** Takes note of one look that succeeded. */
    seen(expected: ReadonlyMap<string, string>, observations: readonly Observation[]): void {
      const mentioned = new Set(observations.map((observation) => observation.jobId));
      for (const jobId of missingSince.keys()) {
        if (mentioned.has(jobId) || !expected.has(jobId)) {
          missingSince.delete(jobId);
          alarmed.delete(jobId);
        }
      }
      for (const jobId of expected.keys()) {
        if (mentioned.has(jobId)) continue;
        const since = missingSince.get(jobId) ?? now();
        missingSince.set(jobId, since);
        if (now() - since < missingAlarmMs || alarmed.has(jobId)) continue;
        alarmed.add(jobId);
        log.error({ hpc: system.name, jobId, since }, 'the system has not mentioned this job for a long time');
      }
      metrics.set('bursar_jobs_missing', { hpc: system.name }, alarmed.size);
    },
  };
}
