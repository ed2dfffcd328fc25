import { type RecordedEnd, toJobEnd } from '../../domain/jobs/end-record.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { FinishedObservation } from './job-ends.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

const checkIntervalMs = 15_000;

/**
 * Finds jobs that have written their end record although their system reports them as running: a controller that was
 * killed can miss the end of a job, and reports it as running up to its time limit. Such a job has ended once its record
 * was there in two checks: normally the system reports the end between them, and knows why it stopped the job.
 */
export function createUnreportedEnds(
  { engine, system, workspaces, now, log }: LeasedSystemDeps,
  storeEnds: (ends: FinishedObservation[]) => Promise<string[]>,
) {
  const stopping = new AbortController();
  let recorded = new Map<string, RecordedEnd>();
  let lastCheckAt = now();
  let inProgress: Promise<void> | null = null;

  async function findEnds(running: readonly Extract<Observation, { kind: 'running' }>[]): Promise<void> {
    const paths = new Map(running.map(({ jobId }) => [jobId, workspaces.pathsOf(jobId)]));
    const records = new Map<string, RecordedEnd>();
    for (const [jobId, record] of await engine.readEndRecords(paths, stopping.signal))
      if (typeof record === 'object') records.set(jobId, record);
    const ends: FinishedObservation[] = [];
    for (const { jobId, ref, startedAt, allocation } of running) {
      const record = records.get(jobId);
      if (record === undefined || !recorded.has(jobId)) continue;
      const elapsedSeconds = Math.round((now() - startedAt) / 1000);
      const end = { ...toJobEnd(record), startedAt, elapsedSeconds };
      ends.push({ jobId, ref, kind: 'finished', ...end, ...(allocation === undefined ? {} : { allocation }) });
    }
    recorded = records;
    if (ends.length === 0) return;
    log.warn({ hpc: system.name, jobIds: ends.map(({ jobId }) => jobId) }, 'system reports ended jobs as running');
    // Otherwise these jobs keep their nodes up to their time limits. If it fails, the next check finds them again: their ends count
    // as stored then too.
    for (const jobId of await storeEnds(ends)) await engine.cancel(jobId, stopping.signal);
  }

  return {
    /** Starts a check of the running jobs, if one is due, and returns at once. Never throws. */
    check(observations: readonly Observation[]): void {
      if (inProgress !== null || now() - lastCheckAt < checkIntervalMs) return;
      lastCheckAt = now();
      const running = observations.filter((item) => item.kind === 'running').filter((item) => item.isEnding !== true);
      inProgress = findEnds(running)
        .catch((error) => {
          if (!stopping.signal.aborted) log.warn({ err: error, hpc: system.name }, 'end records not read, will retry');
        })
        .finally(() => {
          inProgress = null;
        });
    },

    /** Aborts a check, and waits for its end. */
    async stop(): Promise<void> {
      stopping.abort();
      await inProgress;
    },
  };
}
