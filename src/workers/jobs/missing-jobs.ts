import { toTimeLimitSeconds } from '../../domain/accounting/charge.ts';
import { toJobEnd } from '../../domain/jobs/end-record.ts';
import type { JobState } from '../../domain/jobs/job.ts';
import type { Observation } from '../../domain/jobs/transition.ts';
import type { MissingJob } from '../../engines/engine.ts';
import { findUnfinishedJobs, listJobsToCancel, requeueJob } from '../../store/jobs/job-queue.ts';
import { findJob } from '../../store/jobs/jobs.ts';
import { endWithoutUsage } from './advance-job.ts';
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
  hasAlarm: boolean;
  /** Whether the system has certainly forgotten the job. */
  isForgotten: boolean;
  /** Whether a cancellation was requested at the last investigation; null before the first. */
  hadCancelRequest: boolean | null;
}

/** The end of a job that its system has forgotten. How long it ran is unknown. */
const lostEnd = (outcome: 'node_failed' | 'lost', when: string) =>
  endWithoutUsage(outcome, `the system lost the job ${when}, nothing is charged: submit it again`);

const cancelledEnd = endWithoutUsage('cancelled', 'cancelled before it started');

/**
 * Tracks jobs that the engine should have and does not report. Absence is not an end and changes no state; after the
 * configured time it is logged as an error. A job is requeued for the dispatcher only if it certainly never started: to be
 * submitted again if its system lost it (a controller that is killed can forget a job it has just accepted), or to be ended
 * if it was cancelled. A job whose wrapper script left an end record in the workspace has ended. A job that was killed
 * before it could leave one, and that its system has forgotten, ends as lost.
 */
export function createMissingJobTracker(deps: LeasedSystemDeps, onRequeued: () => void) {
  const { db, lease, engine, system, workspaces, missingAlarmMs, metrics, now, log } = deps;
  const missing = new Map<string, MissingEntry>();

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
    for (const [jobId, { record, isForgotten }] of await engine.inspectMissing(jobs, signal)) {
      const job = jobs.get(jobId);
      const entry = missing.get(jobId);
      if (job === undefined || entry === undefined) continue;
      const { ref, state } = job;
      entry.isForgotten ||= isForgotten;
      const isCancelRequested = jobsToCancel.has(jobId);
      const common = { jobId, ref, kind: 'finished' } as const;
      if (typeof record === 'object') ends.push({ ...common, ...toJobEnd(record) });
      else if (record === 'not_ended') {
        if (await isCertainlyOver(jobId, entry))
          ends.push({ ...common, ...lostEnd('lost', 'while it ran'), endedAt: now() });
      } else if (state === 'running') {
        // Users have seen it running, so it cannot go back to the queue.
        const end = isCancelRequested ? cancelledEnd : lostEnd('node_failed', 'before it started');
        const isOver = isCancelRequested || (await isCertainlyOver(jobId, entry));
        if (entry.isForgotten || isOver) ends.push({ ...common, ...end, endedAt: now() });
      } else if (entry.isForgotten || isCancelRequested) {
        if (!(await lease.transaction((tx) => requeueJob(tx, jobId, ref, now())))) continue;
        log.warn({ hpc: system.name, jobId, ref, isForgotten }, 'missing job never started, requeued');
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

  /**
   * Whether a job that has started and left no end record does not run any more. A system that has forgotten a job kills
   * it as soon as its node responds. No system lets a job run for much longer than its granted runtime.
   */
  async function isCertainlyOver(jobId: string, { since, isForgotten }: MissingEntry): Promise<boolean> {
    const missingMs = now() - since;
    if (missingMs < missingAlarmMs) return false;
    if (isForgotten) return true;
    const job = await findJob(db, jobId);
    return job !== undefined && missingMs >= missingAlarmMs + toTimeLimitSeconds(job.request.runtimeHours) * 1000;
  }

  function raiseAlarm(jobId: string, entry: MissingEntry): void {
    const { since } = entry;
    if (now() - since < missingAlarmMs || entry.hasAlarm) return;
    entry.hasAlarm = true;
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
      for (const jobId of missing.keys()) if (!unreported.has(jobId)) missing.delete(jobId);
      const jobsToCancel = new Set(unreported.size > 0 ? await listJobsToCancel(db, system.name) : []);
      const toInvestigate = new Map<string, string>();
      for (const [jobId, ref] of unreported) {
        const entry = missing.get(jobId) ?? {
          since: now(),
          missedPolls: 0,
          investigatedAt: 0,
          hasAlarm: false,
          isForgotten: false,
          hadCancelRequest: null,
        };
        entry.missedPolls += 1;
        missing.set(jobId, entry);
        raiseAlarm(jobId, entry);
        if (entry.missedPolls < minMissedPolls || now() - entry.since < minMissingMs) continue;
        const isAlreadyInvestigated = entry.hadCancelRequest === jobsToCancel.has(jobId);
        if (isAlreadyInvestigated && now() - entry.investigatedAt < reinvestigateMs) continue;
        toInvestigate.set(jobId, ref);
      }
      const alarms = missing.values().filter(({ hasAlarm }) => hasAlarm);
      metrics.setGauge('bursar_jobs_missing', { hpc: system.name }, alarms.toArray().length);
      return toInvestigate.size > 0 ? await investigate(toInvestigate, jobsToCancel, signal) : [];
    },
  };
}
