import { setTimeout as sleep } from 'node:timers/promises';
import { toTimeLimitSeconds } from '../../domain/accounting/charge.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Outcome } from '../../domain/jobs/job.ts';
import { describeCancellation } from '../../domain/jobs/transition.ts';
import { createSlots, type Slots } from '../../domain/slots.ts';
import type { ZipSource } from '../../files/zip/zip-content.ts';
import { findInput } from '../../store/jobs/inputs.ts';
import { listSubmissionsToCancel, postponeJob } from '../../store/jobs/job-queue.ts';
import { findJob, type JobRecord } from '../../store/jobs/jobs.ts';
import { inActiveSpan, inSpanOf } from '../../tracing/tracing.ts';
import { idleIntervalMs, type Loop, startLoop } from '../loop.ts';
import { advanceJob, endWithoutUsage, releaseJobs } from './advance-job.ts';
import { createJobClaims } from './claim-jobs.ts';
import { createDispatchFailures } from './dispatch-failures.ts';
import type { LeasedSystemDeps } from './system-deps.ts';

/** Jobs in progress. More than are submitted: the files of the next ones are unpacked meanwhile, and commits are shared. */
const concurrency = 16;
/** The load on a scheduler: each submission is one command. */
const maxConcurrentSubmissions = 8;
const delayAfterErrorMs = 1000;

/** One try to submit a job. */
interface Attempt {
  /** Aborted when the dispatcher stops. */
  stopping: AbortSignal;
  /** Aborted when the job is cancelled. */
  cancelling: AbortController;
  /** Whether this try may have submitted the job. */
  hasReachedEngine: boolean;
  /** Limits the submissions at the same time. */
  submissions: Slots;
  /** Starts the release of the job, after its submission has been stored. */
  release(engineRef: string): void;
}

/**
 * Submits accepted jobs to the engine of their system: claims jobs that are due, unpacks their zips into their workspaces,
 * submits each exactly once, and stores the engine's id. An interrupted job stays due and is claimed again. Several jobs are
 * dispatched concurrently, so that a large zip does not delay the others, and users take turns.
 */
export function startDispatcher(deps: LeasedSystemDeps, onDispatched: () => void): Loop {
  const { db, system, now, log } = deps;
  const claims = createJobClaims(deps);
  const failures = createDispatchFailures(deps, claims);
  const inProgress = new Map<number, { job: JobRecord; attempt: Attempt; dispatched: Promise<void> }>();
  const releases = new Set<Promise<void>>();
  const submissions = createSlots({ total: maxConcurrentSubmissions });

  /** Interrupts the upload of jobs that were cancelled meanwhile: it may take long, or hang. */
  async function interruptCancelled(): Promise<void> {
    if (inProgress.size === 0) return;
    for (const id of await listSubmissionsToCancel(db, system.name)) inProgress.get(id)?.attempt.cancelling.abort();
  }

  /** Lets a submitted job start. Other jobs are dispatched meanwhile: engines release several jobs in one command. */
  function startRelease({ jobId }: JobRecord, engineRef: string, stopping: AbortSignal): void {
    const released = releaseJobs(deps, new Map([[jobId, engineRef]]), stopping);
    releases.add(released);
    void released.finally(() => releases.delete(released));
  }

  const loop = startLoop(async (stopping) => {
    try {
      await interruptCancelled();
      // Jobs are claimed only when they can be dispatched at once: a claim counts as a try.
      if (inProgress.size >= concurrency) return idleIntervalMs;
      const jobsInProgress = [...inProgress.values()].map(({ job }) => job);
      const { jobs, nextAt } = await claims.claim(concurrency - inProgress.size, jobsInProgress);
      for (const job of jobs) {
        const attempt: Attempt = {
          stopping,
          cancelling: new AbortController(),
          hasReachedEngine: false,
          submissions,
          release: (engineRef) => startRelease(job, engineRef, stopping),
        };
        const dispatched = dispatch(deps, job, attempt, failures).finally(() => {
          inProgress.delete(job.id);
          onDispatched();
          loop.wake();
        });
        inProgress.set(job.id, { job, attempt, dispatched });
      }
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
      await Promise.all([...inProgress.values()].map(({ dispatched }) => dispatched));
      await Promise.all(releases);
    },
  };
}

type DispatchFailures = ReturnType<typeof createDispatchFailures>;

/** Never throws: a job that fails here is still due, and is retried. */
async function dispatch(
  deps: LeasedSystemDeps,
  job: JobRecord,
  attempt: Attempt,
  failures: DispatchFailures,
): Promise<void> {
  const { lease, system, now, log } = deps;
  const { stopping } = attempt;
  try {
    try {
      const attributes = { 'bursar.hpc': system.name, 'bursar.job_id': job.jobId, 'bursar.try': job.tries };
      const submitted = await inSpanOf(deps.tracing, job.traceParent, 'dispatch', attributes, () =>
        submitOnce(deps, job, attempt),
      );
      failures.forget(job, submitted);
    } catch (error) {
      const { hasReachedEngine } = attempt;
      if (!stopping.aborted) await failures.postpone(job, error, hasReachedEngine);
      else await lease.transaction((tx) => postponeJob(tx, job, { dueAt: now(), hasReachedEngine }));
    }
  } catch (error) {
    log.error({ err: error, hpc: system.name, jobId: job.jobId }, 'job dispatch failed, will retry');
    // Not even the retry time could be stored, so the job is due at once: wait here instead.
    await sleep(delayAfterErrorMs, undefined, { signal: stopping }).catch(() => undefined);
  }
}

/**
 * Submits the job, or ends it: as cancelled, or as rejected if it is certain that a retry would fail in the same way.
 * Returns whether the engine has it.
 */
async function submitOnce(deps: LeasedSystemDeps, job: JobRecord, attempt: Attempt): Promise<boolean> {
  const { db, system, log } = deps;
  let engineRef: string | null;
  try {
    engineRef = await findOrSubmit(deps, job, attempt);
  } catch (error) {
    if (!isRejection(error)) throw error;
    await endUnsubmitted(deps, job, 'rejected', error.message);
    return false;
  }
  if (engineRef === null) {
    // The cancellation may be later than the claim.
    const { outcome, reason } = describeCancellation((await findJob(db, job.jobId))?.cancelRequestedBy ?? null);
    await endUnsubmitted(deps, job, outcome, `${reason} before it began`);
    return false;
  }
  if (!(await advanceJob(deps, job, { next: { state: 'queued' }, engineRef }))) return true;
  await removeZip(deps, job);
  log.info({ hpc: system.name, jobId: job.jobId, engineRef }, 'job submitted');
  attempt.release(engineRef);
  return true;
}

/**
 * Returns the engine's id of the job, either of an earlier submission whose answer was lost or of a new one. Returns null if
 * the job was cancelled and the engine does not have it.
 */
async function findOrSubmit(deps: LeasedSystemDeps, job: JobRecord, attempt: Attempt): Promise<string | null> {
  const { engine, workspaces } = deps;
  const { jobId } = job;
  const { stopping, cancelling } = attempt;
  const workspace = workspaces.pathsOf(jobId);
  // After an earlier try the job may already be running in its workspace. It must not be staged again then.
  if (job.tries > 1) {
    const engineRef = (await engine.find([{ jobId, workspace }], stopping)).get(jobId);
    if (engineRef !== undefined) {
      attempt.hasReachedEngine = true;
      return engineRef;
    }
  }
  if (job.cancelRequestedBy !== null) return null;
  try {
    const signal = AbortSignal.any([stopping, cancelling.signal]);
    await inActiveSpan(deps.tracing, 'unpack', () => stageFiles(deps, job, signal));
  } catch (error) {
    if (!cancelling.signal.aborted || stopping.aborted) throw error;
  }
  return await attempt.submissions.run(() =>
    inActiveSpan(deps.tracing, 'submit', () => submitStaged(deps, job, attempt)),
  );
}

/** Submits a job whose files are in its workspace. Returns null if the job was cancelled meanwhile. */
async function submitStaged(
  { engine, workspaces, siteOptions }: LeasedSystemDeps,
  job: JobRecord,
  attempt: Attempt,
): Promise<string | null> {
  const { jobId, request } = job;
  const { stopping, cancelling } = attempt;
  if (cancelling.signal.aborted) return null;
  stopping.throwIfAborted();
  // A cancellation waits for this: an interrupted submission could leave a job in the engine.
  const setReached = () => {
    attempt.hasReachedEngine = true;
  };
  const engineRef = await engine.submit(
    {
      jobId,
      nodes: request.nodes,
      coresPerNode: request.coresPerNode,
      runtimeSeconds: toTimeLimitSeconds(request.runtimeHours),
      owner: job.owner,
      command: request.command,
      workspace: workspaces.pathsOf(jobId),
      ...(request.startFolder === undefined ? {} : { startFolder: request.startFolder }),
      site: siteOptions(job.project.name),
    },
    stopping,
    { isFirstTry: job.tries === 1, beforeSubmission: setReached },
  );
  setReached();
  return engineRef;
}

async function stageFiles(deps: LeasedSystemDeps, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { workspaces, zipLimits } = deps;
  // A job whose zip is gone was submitted before, but never started: its workspace is complete and unchanged.
  const zip = await findZip(deps, job);
  if (zip === null && job.hasInput) return;
  await workspaces.stage(job.jobId, zip, zipLimits, signal, job.owner);
}

/** Small zips are in the database, larger ones in the spool. Null if the job has no zip, or it was unpacked and removed. */
async function findZip({ db, spool }: LeasedSystemDeps, { id, jobId, hasInput }: JobRecord): Promise<ZipSource | null> {
  if (!hasInput) return null;
  const bytes = await findInput(db, id);
  if (bytes) return { kind: 'memory', bytes };
  return (await spool.has(jobId)) ? { kind: 'file', path: spool.pathOf(jobId) } : null;
}

/** The zip is not needed any more. Never throws: the cleanup removes a zip that remains. */
async function removeZip({ spool, system, log }: LeasedSystemDeps, { jobId }: JobRecord): Promise<void> {
  await spool.remove(jobId).catch((error) => {
    log.warn({ err: error, hpc: system.name, jobId }, 'zip not removed, left to the cleanup');
  });
}

/** Whether the error concerns this job for certain, so that a retry would fail in the same way. */
function isRejection(error: unknown): error is BursarError {
  return error instanceof BursarError && (error.code === 'job_refused' || error.code === 'invalid_zip');
}

/** Ends a job that the engine does not have. Nothing of it ran, so its files are removed and nothing is charged. */
async function endUnsubmitted(deps: LeasedSystemDeps, job: JobRecord, outcome: Outcome, reason: string): Promise<void> {
  const { system, now, log } = deps;
  const next = { state: 'ended', ...endWithoutUsage(outcome, reason), endedAt: now() } as const;
  if (!(await advanceJob(deps, job, { next }))) return;
  deps.removeFiles(system.name, job.jobId);
  await removeZip(deps, job);
  log.info({ hpc: system.name, jobId: job.jobId, outcome, reason }, 'job ended before submission');
}
