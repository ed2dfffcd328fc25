import { isStateChange, type Observation, transition } from '../../domain/jobs/transition.ts';
import { type PollResult, statusAfterPoll } from '../../domain/systems/health.ts';
import {
  findEndedJobs,
  findUnfinishedJobs,
  listUnfinishedJobs,
  type UnfinishedJob,
} from '../../store/jobs/job-queue.ts';
import { findJob } from '../../store/jobs/jobs.ts';
import { updateSystem } from '../../store/systems/systems.ts';
import { type Loop, startLoop } from '../loop.ts';
import { advanceJob, releaseJobs } from './advance-job.ts';
import { createJobEnds, type FinishedObservation, type JobEnds } from './job-ends.ts';
import { createMissingJobTracker } from './missing-jobs.ts';
import { delayAfterPoll, pollInterval } from './poll-interval.ts';
import type { LeasedSystemDeps } from './system-deps.ts';
import { createUnreportedEnds } from './unreported-ends.ts';

/** An engine counts as slow only if this many polls in a row were slow. */
const recentPollCount = 3;
/** A change that an engine announces is polled with those that follow: a short job starts and ends within this time. */
const changeDelayMs = 50;

/**
 * Watches the jobs of one system with one batched poll of the engine per iteration, however many jobs and readers there are.
 * A poll that fails, or that does not report a job, changes nothing but the age of the stored status.
 */
export function startWatcher(deps: LeasedSystemDeps, onRequeued: () => void): Loop {
  const { db, lease, engine, system, minPollMs, maxPollMs, fullScanMs, metrics, now, log } = deps;
  const missingJobs = createMissingJobTracker(deps, onRequeued);
  const jobEnds = createJobEnds(deps, onRequeued);
  const unreportedEnds = createUnreportedEnds(deps, jobEnds.store);
  const recentPollMs: number[] = [];
  /** Unfinished jobs as they were last read from the database. */
  let known = new Map<string, UnfinishedJob>();
  let expected = new Map<string, string>();
  let fullScanAt = Number.NEGATIVE_INFINITY;
  let consecutiveFailures = 0;
  let lastSuccessAt = now();
  let lastChangeAt = now();
  let storedStatus = '';

  async function poll(signal: AbortSignal): Promise<PollResult & { jobCount: number }> {
    const isFullScan = performance.now() - fullScanAt >= fullScanMs;
    if (isFullScan) {
      known = await listUnfinishedJobs(db, system.name);
      expected = jobsInEngine(known);
      fullScanAt = performance.now();
    }
    const startedAt = now();
    try {
      const observations = await engine.observe(expected, signal);
      const durationMs = now() - startedAt;
      const isChanged = await applyObservations({ deps, jobEnds, known, isFullScan }, observations, signal);
      if (isChanged) lastChangeAt = now();
      unreportedEnds.check(observations);
      if (isFullScan) void jobEnds.store(await missingJobs.update(expected, observations, signal));
      return { durationMs, error: null, jobCount: expected.size };
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc: system.name }, 'poll failed, will retry');
      return { durationMs: now() - startedAt, error: (error as Error).message, jobCount: expected.size };
    }
  }

  /** The status is stored when it changes, so that readers on every instance see it. */
  async function storeSystemStatus(result: PollResult): Promise<void> {
    const failingMs = now() - lastSuccessAt;
    const { status, detail } = statusAfterPoll(result, { consecutiveFailures, failingMs });
    if (storedStatus === status) return;
    await lease.transaction((tx) => updateSystem(tx, system.name, { status, since: now(), detail }));
    if (storedStatus !== '' || status !== 'up') log.warn({ hpc: system.name, status, detail }, 'system status changed');
    storedStatus = status;
  }

  const loop = startLoop(async (signal, dueAt) => {
    const startedAt = performance.now();
    try {
      const result = await poll(signal);
      if (signal.aborted) return minPollMs;
      metrics.increment('bursar_watch_rounds_total', { hpc: system.name });
      metrics.increment('bursar_watch_seconds_total', { hpc: system.name }, (performance.now() - startedAt) / 1000);
      consecutiveFailures = result.error === null ? 0 : consecutiveFailures + 1;
      if (consecutiveFailures === 0) lastSuccessAt = now();
      await storeSystemStatus(result);
      recentPollMs.push(result.durationMs);
      if (recentPollMs.length > recentPollCount) recentPollMs.shift();
      const { jobCount } = result;
      const unchangedMs = now() - lastChangeAt;
      const limits = { minMs: minPollMs, maxMs: maxPollMs };
      const intervalMs = pollInterval({ ...limits, jobCount, unchangedMs, consecutiveFailures, recentPollMs });
      return delayAfterPoll(intervalMs, performance.now() - dueAt, consecutiveFailures);
    } catch (error) {
      log.error({ err: error, hpc: system.name }, 'watcher failed, will retry');
      return minPollMs;
    }
  });
  const wake = (withinMs?: number) => {
    lastChangeAt = now();
    loop.wake(withinMs);
  };
  engine.onChange(() => wake(changeDelayMs));
  return {
    wake,
    async stop() {
      await Promise.all([loop.stop(), unreportedEnds.stop(), jobEnds.stop()]);
    },
  };
}

/** Jobs of a system that have not ended, by job id. */
type UnfinishedJobs = ReadonlyMap<string, UnfinishedJob>;

/** Jobs that the engine should have, with the engine's ids of them. */
function jobsInEngine(unfinished: UnfinishedJobs): Map<string, string> {
  const refs = new Map<string, string>();
  for (const [jobId, { state, engineRef }] of unfinished)
    if (state === 'queued' || state === 'running') refs.set(jobId, engineRef ?? '');
  return refs;
}

/**
 * Whether an observation may require an action, judged by the job as it was last read from the database. Only these few of
 * thousands of jobs are read again. A job that changed during the poll is handled by the next one. If all unfinished jobs
 * were read for this poll, a job that is not among them has ended, or is still being dispatched.
 */
function mayRequireAction(
  storedJob: UnfinishedJob | undefined,
  observation: Observation,
  isFullScan: boolean,
): boolean {
  if (storedJob === undefined) return observation.kind === 'finished' || isHeld(observation) || !isFullScan;
  if (storedJob.engineRef !== observation.ref) return true;
  return isStateChange(storedJob.state, observation) || isHeld(observation);
}

const isHeld = (observation: Observation) => observation.kind === 'queued' && observation.held;

interface PollContext {
  deps: LeasedSystemDeps;
  jobEnds: JobEnds;
  /** Jobs that are read again are updated here. */
  known: Map<string, UnfinishedJob>;
  isFullScan: boolean;
}

/** Stores the observations and acts on them. Returns whether any job has changed. */
async function applyObservations(
  { deps, jobEnds, known, isFullScan }: PollContext,
  observations: readonly Observation[],
  signal: AbortSignal,
): Promise<boolean> {
  const { db, system, engine, log } = deps;
  const relevant = observations.filter((item) => mayRequireAction(known.get(item.jobId), item, isFullScan));
  if (relevant.length === 0) return false;
  const jobIds = relevant.map(({ jobId }) => jobId);
  // Read after the poll of the engine: a job that is missing here has ended.
  const unfinished = await findUnfinishedJobs(db, system.name, jobIds);
  for (const [jobId, job] of unfinished) known.set(jobId, job);
  const ends: FinishedObservation[] = [];
  const storedEnds: string[] = [];
  const heldRefs = new Map<string, string>();
  const strayRefs: string[] = [];
  const heldWithoutJob = new Map<string, string>();
  let hasChanges = false;
  for (const observation of relevant) {
    const { jobId, ref } = observation;
    const job = unfinished.get(jobId);
    if (job === undefined) {
      if (observation.kind === 'finished') storedEnds.push(jobId);
      else if (isHeld(observation)) heldWithoutJob.set(ref, jobId);
      continue;
    }
    // The dispatcher has not stored the engine's id yet. If the job ended and were forgotten before that, the dispatcher
    // would not find it in the engine, and would submit it again.
    if (job.state === 'accepted' || job.state === 'submitting') continue;
    if (job.engineRef !== ref) strayRefs.push(ref);
    else if (observation.kind === 'finished') ends.push(observation);
    else {
      try {
        if (await storeState(deps, observation)) hasChanges = true;
        if (isHeld(observation)) heldRefs.set(jobId, ref);
      } catch (error) {
        log.error({ err: error, hpc: system.name, jobId }, 'job update failed, will retry');
      }
    }
  }
  void jobEnds.store(ends);
  // A submission that a paused server made too late, or that a controller remembered again, after the job had ended. It would
  // stay in the queue for ever. A held job that is not in the database is one of `bursar doctor`, or of another gateway.
  const ended = await findEndedJobs(db, system.name, [...heldWithoutJob.values()]);
  for (const [ref, jobId] of heldWithoutJob) if (ended.has(jobId)) strayRefs.push(ref);
  if (heldRefs.size > 0) await releaseJobs(deps, heldRefs, signal);
  if (strayRefs.length > 0) await engine.discard(strayRefs, signal);
  // Their ends were stored by a process that was killed before the engine forgot them.
  if (storedEnds.length > 0) await engine.forget(storedEnds, signal);
  return hasChanges || ends.length > 0;
}

/** Stores that a job waits or runs. Returns whether its state has changed. */
async function storeState(deps: LeasedSystemDeps, observation: Observation): Promise<boolean> {
  const { db, system, log } = deps;
  const job = await findJob(db, observation.jobId);
  const next = job && transition(job.status, observation, job.cancelRequestedBy);
  if (!next) return false;
  if (!(await advanceJob(deps, job, { next, engineMessage: observation.engineMessage }))) return false;
  log.info({ hpc: system.name, jobId: job.jobId, state: next.state }, 'job state changed');
  return true;
}
