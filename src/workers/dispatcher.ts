import { setTimeout as sleep } from 'node:timers/promises';
import { toTimeLimitSeconds } from '../domain/accounting/price.ts';
import { BursarError } from '../domain/errors.ts';
import type { JobRequest } from '../domain/jobs/job.ts';
import { inspectZipAndReadStart } from '../files/zip/unzip.ts';
import type { ZipLimits } from '../files/zip/zip-directory.ts';
import type { ZipSource } from '../files/zip/zip-source.ts';
import { findInput } from '../store/jobs/inputs.ts';
import { claimDueJobs, nextDueAt, postponeJob } from '../store/jobs/job-queue.ts';
import type { JobRecord } from '../store/jobs/jobs.ts';
import { advanceJob } from './advance-job.ts';
import { idleMs, type Loop, maxTimerMs, startLoop } from './loop.ts';
import { release } from './release-jobs.ts';
import type { LeasedSystem } from './system-context.ts';

const atOnce = 8;
const longestDelayMs = 60_000;
const afterTroubleMs = 1000;

/**
 * Brings accepted jobs to the engine of their system: claims what is due, unpacks its zip into its workspace,
 * submits it exactly once, and stores the engine's id. Whatever is interrupted is found again, for it is still due. A
 * few jobs are under way at a time, so that a large zip does not keep the others waiting.
 */
export function startDispatcher(worker: LeasedSystem, onSubmitted: () => void): Loop {
  const { db, lease: tenure, system, now, log } = worker;
  const underWay = new Map<number, Promise<void>>();

  const loop = startLoop(async (signal) => {
    try {
      if (underWay.size >= atOnce) return maxTimerMs;
      const inHand = [...underWay.keys()];
      const most = atOnce - underWay.size;
      const jobs = await tenure.transaction((tx) => claimDueJobs(tx, system.name, { now: now(), most, inHand }));
      for (const job of jobs) {
        const work = dispatch(worker, job, signal).finally(() => {
          underWay.delete(job.id);
          onSubmitted();
          loop.wake();
        });
        underWay.set(job.id, work);
      }
      const next = await nextDueAt(db, system.name, [...underWay.keys()]);
      return next === undefined ? idleMs : Math.min(idleMs, Math.max(10, next - now()));
    } catch (error) {
      log.error({ err: error, hpc: system.name }, 'dispatching failed');
      return 1000;
    }
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      await Promise.all(underWay.values());
    },
  };
}

/** Never throws: what fails here is due, and is tried again. */
async function dispatch(worker: LeasedSystem, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { system, log } = worker;
  try {
    await submitOnce(worker, job, signal);
  } catch (error) {
    log.error({ err: error, hpc: system.name, jobId: job.jobId }, 'job left as it was');
    // Whoever could not even write that, need not hurry.
    await sleep(afterTroubleMs, undefined, { signal }).catch(() => undefined);
  }
}

async function submitOnce(worker: LeasedSystem, job: JobRecord, signal: AbortSignal): Promise<void> {
  const { lease: tenure, system, spool, now, log } = worker;
  try {
    const engineRef = await bringToEngine(worker, job, signal);
    if (engineRef === null) {
      await endUnsubmitted(worker, job, 'cancelled', 'cancelled by its owner before it began');
      return;
    }
    if (!(await advanceJob(tenure, job, system, { next: { state: 'queued' }, now: now(), engineRef }))) return;
    worker.announce(job.owner);
    await spool.remove(job.jobId);
    log.info({ hpc: system.name, jobId: job.jobId, engineRef }, 'job submitted');
    await release(worker, new Map([[job.jobId, engineRef]]), signal);
  } catch (error) {
    if (isFinal(error)) {
      await endUnsubmitted(worker, job, 'rejected', error.message);
      return;
    }
    const delayMs = signal.aborted ? 0 : Math.min(longestDelayMs, 500 * 2 ** Math.min(job.tries, 10));
    log.warn({ err: error, hpc: system.name, jobId: job.jobId, delayMs }, 'job not submitted yet');
    await tenure.transaction((tx) => postponeJob(tx, job.id, now() + delayMs));
  }
}

/**
 * The engine's id of the job: of an earlier try whose answer was lost, or of a new submission. Null when its owner
 * does not want it any more and no engine has it.
 */
async function bringToEngine(worker: LeasedSystem, job: JobRecord, signal: AbortSignal): Promise<string | null> {
  const { engine, workspaces, zipLimits, siteOptions } = worker;
  const { jobId, request } = job;
  // Only a job that was never tried may be staged without asking: another one may be running in its workspace.
  if (job.tries > 1) {
    const known = (await engine.find([jobId], signal)).get(jobId);
    if (known !== undefined) return known;
  }
  if (job.isToBeCancelled) return null;
  // A zip is removed once its job has been with an engine: then the workspace is whole, and nothing has run in it.
  const zip = await zipOf(worker, job);
  if (zip !== null || !job.hasInput) {
    await workspaces.stage(jobId, zip, zipLimits);
    await checkEntry(zip, request, zipLimits);
  }
  const workspace = workspaces.pathsOf(jobId);
  return await engine.submit(
    {
      jobId,
      nodes: request.nodes,
      coresPerNode: request.coresPerNode,
      runtimeSeconds: toTimeLimitSeconds(request.runtimeHours),
      command: request.command,
      workspace,
      site: siteOptions(job.project.name),
    },
    signal,
  );
}

/** In the books if it is small, and else in the spool. Null for a job without one, and for one whose zip is unpacked. */
async function zipOf({ db, spool }: LeasedSystem, { id, jobId, hasInput }: JobRecord): Promise<ZipSource | null> {
  if (!hasInput) return null;
  const bytes = await findInput(db, id);
  if (bytes) return { kind: 'memory', bytes };
  return (await spool.has(jobId)) ? { kind: 'file', path: spool.pathOf(jobId) } : null;
}

/** Looks into the zip: the workspace may be on another host. */
async function checkEntry(zip: ZipSource | null, { entry, tool }: JobRequest, limits: ZipLimits): Promise<void> {
  if (entry === null) return;
  const name = entry.replace(/^(\.\/)+/, '');
  if (zip !== null && (await inspectZipAndReadStart(zip, name, 1, limits)).fileStart !== null) return;
  throw new BursarError('job_refused', `${entry} is not in the zip, and the tool ${tool} starts from it`);
}

/** Whether another try would end the same way. */
function isFinal(error: unknown): error is BursarError {
  return error instanceof BursarError && (error.code === 'job_refused' || error.code === 'invalid_zip');
}

/** Ends a job that no engine has: nothing of it ran, so nothing of it stays or is charged. */
async function endUnsubmitted(
  worker: LeasedSystem,
  job: JobRecord,
  outcome: 'rejected' | 'cancelled',
  reason: string,
): Promise<void> {
  const { lease: tenure, system, spool, workspaces, now, log } = worker;
  const end = { outcome, reason, exitCode: null, startedAt: null, elapsedSeconds: 0 } as const;
  const next = { state: 'ended', ...end, endedAt: now() } as const;
  if (!(await advanceJob(tenure, job, system, { next, now: now() }))) return;
  worker.announce(job.owner);
  await workspaces.remove(job.jobId);
  await spool.remove(job.jobId);
  log.info({ hpc: system.name, jobId: job.jobId, outcome, reason }, 'job ended without being submitted');
}
