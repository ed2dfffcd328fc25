import { setTimeout as sleep } from 'node:timers/promises';
import { toTimeLimitSeconds } from '../domain/accounting/price.ts';
import { BursarError } from '../domain/errors.ts';
import type { Outcome } from '../domain/jobs/job.ts';
import { describeCancellation } from '../domain/jobs/transition.ts';
import type { ZipSource } from '../files/zip/zip-source.ts';
import { findInput } from '../store/jobs/inputs.ts';
import { claimDueJobs, findNextDueAt, postponeJob } from '../store/jobs/job-queue.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import { advanceJob, releaseJobs } from './advance-job.ts';
import { idleIntervalMs, type Loop, maxTimerMs, startLoop } from './loop.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

const concurrency = 8;
const maxRetryDelayMs = 60_000;
const delayAfterErrorMs = 1000;

/**
 * Submits accepted jobs to the engine of their system: claims jobs that are due, unpacks their zips into their workspaces,
 * submits each exactly once, and stores the engine's id. An interrupted job stays due and is claimed again. Several jobs are
 * dispatched concurrently, so that a large zip does not delay the others.
 */
export function startDispatcher(deps: LeasedSystemDeps, onDispatched: () => void): Loop {
  const { db, lease, system, now, log } = deps;
  const inProgress = new Map<number, Promise<void>>();

  const loop = startLoop(async (signal) => {
    try {
      // Jobs are claimed only when they can be dispatched at once: a claim counts as a try.
      if (inProgress.size >= concurrency) return maxTimerMs;
      const claim = { now: now(), limit: concurrency - inProgress.size, excludedIds: [...inProgress.keys()] };
      const jobs = await lease.transaction((tx) => claimDueJobs(tx, system.name, claim));
      for (const job of jobs) {
        const dispatched = dispatch(deps, job, signal).finally(() => {
          inProgress.delete(job.id);
          onDispatched();
          loop.wake();
        });
        inProgress.set(job.id, dispatched);
      }
      const nextAt = await findNextDueAt(db, system.name, [...inProgress.keys()]);
      return nextAt === undefined ? idleIntervalMs : Math.min(idleIntervalMs, Math.max(10, nextAt - now()));
    } catch (error) {
      log.error({ err: error, hpc: system.name }, 'claiming jobs failed, will retry');
      return delayAfterErrorMs;
    }
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      await Promise.all(inProgress.values());
    },
  };
}

/** Never throws: a job that fails here is still due, and is retried. */
async function dispatch(deps: LeasedSystemDeps, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { system, log } = deps;
  try {
    await submitOnce(deps, job, signal);
  } catch (error) {
    log.error({ err: error, hpc: system.name, jobId: job.jobId }, 'job dispatch failed, will retry');
    // Not even the retry time could be stored, so the job is due at once: wait here instead.
    await sleep(delayAfterErrorMs, undefined, { signal }).catch(() => undefined);
  }
}

async function submitOnce(deps: LeasedSystemDeps, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { lease, system, spool, now, log } = deps;
  try {
    const engineRef = await findOrSubmit(deps, job, signal);
    if (engineRef === null) {
      const { outcome, reason } = describeCancellation(job.cancelRequestedBy);
      await endUnsubmitted(deps, job, outcome, `${reason} before it began`);
      return;
    }
    if (!(await advanceJob(lease, job, system, { next: { state: 'queued' }, now: now(), engineRef }))) return;
    deps.publish(job.owner);
    await spool.remove(job.jobId);
    log.info({ hpc: system.name, jobId: job.jobId, engineRef }, 'job submitted');
    await releaseJobs(deps, new Map([[job.jobId, engineRef]]), signal);
  } catch (error) {
    if (isPermanent(error)) {
      await endUnsubmitted(deps, job, 'rejected', error.message);
      return;
    }
    const delayMs = signal.aborted ? 0 : Math.min(maxRetryDelayMs, 500 * 2 ** Math.min(job.tries, 10));
    log.warn({ err: error, hpc: system.name, jobId: job.jobId, delayMs }, 'job submission failed, will retry');
    await lease.transaction((tx) => postponeJob(tx, job.id, now() + delayMs));
  }
}

/**
 * Returns the engine's id of the job, either of an earlier submission whose answer was lost or of a new one. Returns null if
 * the job was cancelled and the engine does not have it.
 */
async function findOrSubmit(deps: LeasedSystemDeps, job: JobRecord, signal: AbortSignal): Promise<string | null> {
  const { engine, workspaces, zipLimits, siteOptions } = deps;
  const { jobId, request } = job;
  const workspace = workspaces.pathsOf(jobId);
  // After an earlier try the job may already be running in its workspace. It must not be staged again then.
  if (job.tries > 1) {
    const engineRef = (await engine.find([{ jobId, workspace }], signal)).get(jobId);
    if (engineRef !== undefined) return engineRef;
  }
  if (job.cancelRequestedBy !== null) return null;
  // A job whose zip is gone was submitted before, but never started: its workspace is complete and unchanged.
  const zip = await findZip(deps, job);
  if (zip !== null || !job.hasInput) await workspaces.stage(jobId, zip, zipLimits);
  return await engine.submit(
    {
      jobId,
      nodes: request.nodes,
      coresPerNode: request.coresPerNode,
      runtimeSeconds: toTimeLimitSeconds(request.runtimeHours),
      command: request.command,
      workspace,
      ...(request.startFolder === undefined ? {} : { startFolder: request.startFolder }),
      site: siteOptions(job.project.name),
    },
    signal,
  );
}

/** Small zips are in the database, larger ones in the spool. Null if the job has no zip, or it was unpacked and removed. */
async function findZip({ db, spool }: LeasedSystemDeps, { id, jobId, hasInput }: JobRecord): Promise<ZipSource | null> {
  if (!hasInput) return null;
  const bytes = await findInput(db, id);
  if (bytes) return { kind: 'memory', bytes };
  return (await spool.has(jobId)) ? { kind: 'file', path: spool.pathOf(jobId) } : null;
}

/** Whether a retry would fail in the same way. */
function isPermanent(error: unknown): error is BursarError {
  return error instanceof BursarError && (error.code === 'job_refused' || error.code === 'invalid_zip');
}

/** Ends a job that the engine does not have. Nothing of it ran, so its files are removed and nothing is charged. */
async function endUnsubmitted(deps: LeasedSystemDeps, job: JobRecord, outcome: Outcome, reason: string): Promise<void> {
  const { lease, system, spool, workspaces, now, log } = deps;
  const end = { outcome, reason, exitCode: null, startedAt: null, elapsedSeconds: 0 } as const;
  const next = { state: 'ended', ...end, endedAt: now() } as const;
  if (!(await advanceJob(lease, job, system, { next, now: now() }))) return;
  deps.publish(job.owner);
  await workspaces.remove(job.jobId);
  await spool.remove(job.jobId);
  log.info({ hpc: system.name, jobId: job.jobId, outcome, reason }, 'job ended before submission');
}
