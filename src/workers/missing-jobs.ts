import { attributeSignalToCancellation } from '../domain/jobs/end-record.ts';
import type { JobEnd, JobState } from '../domain/jobs/job.ts';
import type { Observation } from '../domain/jobs/transition.ts';
import type { MissingJob } from '../engines/engine.ts';
import { findUnfinishedJobs, listJobsToCancel, requeueJob } from '../store/jobs/job-queue.ts';
import type { FinishedObservation } from './job-ends.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

/** A job is investigated after this many polls in a row, and this much time, without a report of it. */
const minMissedPolls = 3;
const minMissingMs = 10_000;
/** A missing job may still run, and write its end record later. */
const reinvestigateMs = 30_000;

interface MissingEntry {
  since: number;
  missedPolls: number;
  investigatedAt: number;
  /** Whether a cancellation was requested at the last investigation; null before the first. */
  hadCancelRequest: boolean | null;
}

/** A job that its system reported as running, and then forgot, although nothing of it ran. Users have seen it running. */
const lostBeforeStart: Omit<JobEnd, 'endedAt'> = {
  outcome: 'node_failed',
  reason: 'the system lost the job before it started, nothing is charged: submit it again',
  exitCode: null,
  startedAt: null,
  elapsedSeconds: 0,
};

/**
 * Tracks jobs that the engine should have and does not report. Absence is not an end and changes no state; after the
 * configured time it is logged as an error. A job is requeued for the dispatcher only if it certainly never started: to be
 * submitted again if its system lost it (a controller that is killed can forget a job it has just accepted), or to be ended
 * if its owner has cancelled it. A job whose wrapper script left an end record in the workspace has ended.
 */
export function createMissingJobTracker(deps: LeasedSystemDeps, onRequeued: () => void) {
  const { db, lease, engine, system, workspaces, missingAlarmMs, metrics, now, log } = deps;
  const missing = new Map<string, MissingEntry>();
  const alarmed = new Set<string>();

  async function investigate(
    refs: ReadonlyMap<string, string>,
    jobsToCancel: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<FinishedObservation[]> {
    const ends: FinishedObservation[] = [];
    const jobs = new Map<string, MissingJob & { state: JobState }>();
    for (const [jobId, { state, acceptedAt }] of await findUnfinishedJobs(db, system.name, [...refs.keys()])) {
      const workspace = workspaces.pathsOf(jobId);
      jobs.set(jobId, { ref: refs.get(jobId) ?? '', workspace, acceptedAt, state });
    }
    for (const [jobId, finding] of await engine.inspectMissing(jobs, signal)) {
      const { ref, state } = jobs.get(jobId) ?? { ref: '' };
      const isCancelRequested = jobsToCancel.has(jobId);
      if (typeof finding === 'object') {
        const end = isCancelRequested ? attributeSignalToCancellation(finding) : finding;
        ends.push({ jobId, ref, kind: 'finished', ...end });
      } else if (finding === 'lost_by_system' && state === 'running') {
        ends.push({ jobId, ref, kind: 'finished', ...lostBeforeStart, endedAt: now() });
      } else if (finding === 'lost_by_system' || isCancelRequested) {
        if (!(await lease.transaction((tx) => requeueJob(tx, jobId, ref, now())))) continue;
        log.warn({ hpc: system.name, jobId, ref, finding }, 'missing job never started, requeued');
        onRequeued();
      }
    }
    for (const jobId of refs.keys()) {
      const entry = missing.get(jobId);
      if (entry === undefined) continue;
      entry.hadCancelRequest = jobsToCancel.has(jobId);
      entry.investigatedAt = now();
    }
    return ends;
  }

  function raiseAlarm(jobId: string, { since }: MissingEntry): void {
    if (now() - since < missingAlarmMs || alarmed.has(jobId)) return;
    alarmed.add(jobId);
    log.error({ hpc: system.name, jobId, since }, 'job not reported by its system for a long time');
  }

  return {
    /** Records one successful poll. Returns the ends of missing jobs that were found in their end records. */
    async update(
      expected: ReadonlyMap<string, string>,
      observations: readonly Observation[],
      signal: AbortSignal,
    ): Promise<FinishedObservation[]> {
      const reported = new Set<string>();
      for (const { jobId } of observations) reported.add(jobId);
      const unreported = new Map<string, string>();
      for (const [jobId, ref] of expected) if (!reported.has(jobId)) unreported.set(jobId, ref);
      for (const jobId of missing.keys()) {
        if (unreported.has(jobId)) continue;
        missing.delete(jobId);
        alarmed.delete(jobId);
      }
      const jobsToCancel = new Set(unreported.size > 0 ? await listJobsToCancel(db, system.name) : []);
      const toInvestigate = new Map<string, string>();
      for (const [jobId, ref] of unreported) {
        const entry = missing.get(jobId) ?? { since: now(), missedPolls: 0, investigatedAt: 0, hadCancelRequest: null };
        entry.missedPolls += 1;
        missing.set(jobId, entry);
        raiseAlarm(jobId, entry);
        if (entry.missedPolls < minMissedPolls || now() - entry.since < minMissingMs) continue;
        const isAlreadyInvestigated = entry.hadCancelRequest === jobsToCancel.has(jobId);
        if (isAlreadyInvestigated && now() - entry.investigatedAt < reinvestigateMs) continue;
        toInvestigate.set(jobId, ref);
      }
      metrics.setGauge('bursar_jobs_missing', { hpc: system.name }, alarmed.size);
      return toInvestigate.size > 0 ? await investigate(toInvestigate, jobsToCancel, signal) : [];
    },
  };
}
