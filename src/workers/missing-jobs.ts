import type { JobEnd } from '../domain/jobs/job.ts';
import type { Observation } from '../domain/jobs/transition.ts';
import { jobsToCancel, returnToDispatcher } from '../store/jobs/job-queue.ts';
import type { LeasedSystem } from './system-context.ts';

/** Looks in a row that must not mention a job before its system is thought to have lost it. */
const looksUntilLost = 3;
const lostAfterMs = 10_000;
/** It may still run, and leave its end later. */
const examineEveryMs = 30_000;

interface Missing {
  since: number;
  looks: number;
  /** When it was last looked for, and what was known of its owner's wishes then. */
  examinedAt: number;
  examined: 'no' | 'wanted' | 'unwanted';
}

/** A job knows by which signal it died, and not who sent it. */
function endOfUnwanted(end: JobEnd): JobEnd {
  const isKilled = end.outcome === 'failed' && end.exitCode === null;
  return isKilled ? { ...end, outcome: 'cancelled', reason: `cancelled (${end.reason})` } : end;
}

/**
 * Minds the jobs that an engine should have and does not mention. That is no end, and changes no state: after the
 * configured time it is told to the operator. Only a job that certainly never began goes back to the dispatcher: to be
 * submitted again, where its system lost it (a controller that is killed can forget what it has just accepted); to be
 * ended, where its owner does not want it any more. And one that left its end itself has ended.
 */
export function createMissingJobs(worker: LeasedSystem, onReturned: () => void) {
  const { db, lease: tenure, engine, system, workspaces, missingAlarmMs, metrics, now, log } = worker;
  const missing = new Map<string, Missing>();
  const alarmed = new Set<string>();

  async function examine(
    due: ReadonlyMap<string, string>,
    unwanted: ReadonlySet<string>,
    signal: AbortSignal,
  ): Promise<Observation[]> {
    const ended: Observation[] = [];
    const jobs = [...due].map(([jobId, ref]) => [jobId, { ref, workspace: workspaces.pathsOf(jobId) }] as const);
    for (const [jobId, trace] of await engine.inspectMissing(new Map(jobs), signal)) {
      const ref = due.get(jobId) ?? '';
      if (typeof trace === 'object') {
        ended.push({ jobId, ref, kind: 'finished', ...(unwanted.has(jobId) ? endOfUnwanted(trace) : trace) });
        continue;
      }
      if (trace !== 'lost_by_system' && !unwanted.has(jobId)) continue;
      if (!(await tenure.transaction((tx) => returnToDispatcher(tx, jobId, ref, now())))) continue;
      log.warn({ hpc: system.name, jobId, ref, trace }, 'the system lost this job before it began');
      onReturned();
    }
    for (const jobId of due.keys()) {
      const entry = missing.get(jobId);
      if (entry === undefined) continue;
      entry.examined = unwanted.has(jobId) ? 'unwanted' : 'wanted';
      entry.examinedAt = now();
    }
    return ended;
  }

  function raiseAlarm(jobId: string, { since }: Missing): void {
    if (now() - since < missingAlarmMs || alarmed.has(jobId)) return;
    alarmed.add(jobId);
    log.error({ hpc: system.name, jobId, since }, 'the system has not mentioned this job for a long time');
  }

  return {
    /** Takes note of one look that succeeded, and answers with the ends that were found where nobody told of them. */
    async note(
      expected: ReadonlyMap<string, string>,
      observations: readonly Observation[],
      signal: AbortSignal,
    ): Promise<Observation[]> {
      const mentioned = new Set<string>();
      for (const { jobId } of observations) mentioned.add(jobId);
      const absent = new Map<string, string>();
      for (const [jobId, ref] of expected) if (!mentioned.has(jobId)) absent.set(jobId, ref);
      for (const jobId of missing.keys()) {
        if (absent.has(jobId)) continue;
        missing.delete(jobId);
        alarmed.delete(jobId);
      }
      const unwanted = new Set(absent.size > 0 ? await jobsToCancel(db, system.name) : []);
      const due = new Map<string, string>();
      for (const [jobId, ref] of absent) {
        const entry = missing.get(jobId) ?? { since: now(), looks: 0, examined: 'no', examinedAt: 0 };
        const wish = unwanted.has(jobId) ? 'unwanted' : 'wanted';
        entry.looks += 1;
        missing.set(jobId, entry);
        raiseAlarm(jobId, entry);
        if (entry.looks < looksUntilLost || now() - entry.since < lostAfterMs) continue;
        if (entry.examined === wish && now() - entry.examinedAt < examineEveryMs) continue;
        due.set(jobId, ref);
      }
      metrics.setGauge('bursar_jobs_missing', { hpc: system.name }, alarmed.size);
      return due.size > 0 ? await examine(due, unwanted, signal) : [];
    },
  };
}
