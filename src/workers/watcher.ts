import { isStateChange, type Observation, transition } from '../domain/jobs/transition.ts';
import { type PollResult, statusAfterPoll } from '../domain/systems/health.ts';
import { whenChanged } from '../store/database/query-cache.ts';
import { type UnfinishedJob, unfinishedAmong, unfinishedJobs } from '../store/jobs/job-queue.ts';
import { findJob } from '../store/jobs/jobs.ts';
import { setSystemStatus } from '../store/systems/systems.ts';
import { advanceJob } from './advance-job.ts';
import { type Loop, startLoop } from './loop.ts';
import { createMissingJobs } from './missing-jobs.ts';
import { delayAfterPoll, pollInterval } from './poll-interval.ts';
import { release } from './release-jobs.ts';
import type { LeasedSystem } from './system-context.ts';

/** So many looks in a row must be slow before the engine is thought to be. */
const looksUntilSlow = 3;

/**
 * Follows the jobs of one system: one batched look at the engine a round, however many jobs and readers there are.
 * A round that fails, or that does not mention a job, changes nothing but the age of what is known.
 */
export function startWatcher(worker: LeasedSystem, onReturned: () => void): Loop {
  const { db, lease: tenure, engine, system, watchMs, idleWatchMs, metrics, now, log } = worker;
  const missing = createMissingJobs(worker, onReturned);
  const readBooks = whenChanged(db, async () => {
    const before = await unfinishedJobs(db, system.name);
    return { before, expected: jobsInEngine(before) };
  });
  const lastTookMs: number[] = [];
  let owedMs = 0;
  let failures = 0;
  let answeredAt = now();
  let changedAt = now();
  let shown = '';

  async function look(signal: AbortSignal): Promise<PollResult & { jobs: number }> {
    const { before, expected } = await readBooks();
    const begunAt = now();
    try {
      const observations = await engine.observe(expected, signal);
      const tookMs = now() - begunAt;
      if (await record(worker, before, observations, signal)) changedAt = now();
      const ends = await missing.note(expected, observations, signal);
      if (await record(worker, before, ends, signal)) changedAt = now();
      return { durationMs: tookMs, error: null, jobs: expected.size };
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc: system.name }, 'watching failed');
      return { durationMs: now() - begunAt, error: (error as Error).message, jobs: expected.size };
    }
  }

  /** Stored when it changes, so that every reader on every instance sees it. */
  async function show(result: PollResult): Promise<void> {
    const { status, detail } = statusAfterPoll(result, { failures, failingMs: now() - answeredAt });
    if (shown === status) return;
    await tenure.transaction((tx) => setSystemStatus(tx, system.name, status, now(), detail));
    if (shown !== '' || status !== 'up')
      log.warn({ hpc: system.name, status, detail }, 'the system is in another status');
    shown = status;
  }

  const loop = startLoop(async (signal, dueAt) => {
    const begunAt = performance.now();
    try {
      const result = await look(signal);
      if (signal.aborted) return watchMs;
      metrics.increment('bursar_watch_rounds_total', { hpc: system.name });
      metrics.increment('bursar_watch_seconds_total', { hpc: system.name }, (performance.now() - begunAt) / 1000);
      failures = result.error === null ? 0 : failures + 1;
      if (failures === 0) answeredAt = now();
      await show(result);
      lastTookMs.push(result.durationMs);
      if (lastTookMs.length > looksUntilSlow) lastTookMs.shift();
      const facts = { jobs: result.jobs, quietMs: now() - changedAt, failures, tookMs: lastTookMs };
      const intervalMs = pollInterval({ fastestMs: watchMs, slowestMs: idleWatchMs, ...facts });
      const pause = delayAfterPoll(intervalMs, { sinceDueMs: performance.now() - dueAt, owedMs, failures });
      owedMs = pause.owedMs;
      return pause.pauseMs;
    } catch (error) {
      log.error({ err: error, hpc: system.name }, 'watching failed');
      return watchMs;
    }
  });
  const wake = (withinMs?: number) => {
    changedAt = now();
    loop.wake(withinMs);
  };
  engine.onChange(() => wake());
  return { ...loop, wake };
}

/** What the books say of jobs that have not ended, by their ids. */
type Books = ReadonlyMap<string, UnfinishedJob>;

/** The jobs that the engine has, with its own ids of them. */
function jobsInEngine(books: Books): Map<string, string> {
  const jobs = new Map<string, string>();
  for (const [jobId, { state, engineRef }] of books)
    if (state === 'queued' || state === 'running') jobs.set(jobId, engineRef ?? '');
  return jobs;
}

/**
 * Whether something follows from an observation, by what the books said before the look. Of thousands of jobs that is so
 * for a few, and only these are looked up again. Where the books have changed since, the next look shows it: a job that they
 * did not have then is in the dispatcher's hands.
 */
function isOfUse(known: UnfinishedJob | undefined, observation: Observation): boolean {
  if (known === undefined) return observation.kind === 'finished';
  if (known.engineRef !== observation.ref) return true;
  return isStateChange(known.state, observation) || (observation.kind === 'queued' && observation.held);
}

/** True when something has changed. */
async function record(
  worker: LeasedSystem,
  before: Books,
  observations: readonly Observation[],
  signal: AbortSignal,
): Promise<boolean> {
  const { db, system, engine, log } = worker;
  const useful = observations.filter((observation) => isOfUse(before.get(observation.jobId), observation));
  if (useful.length === 0) return false;
  // Read after the look at the engine: whoever is missing here has ended.
  const jobs = await unfinishedAmong(
    db,
    system.name,
    useful.map(({ jobId }) => jobId),
  );
  const settled: string[] = [];
  const held = new Map<string, string>();
  const strays: string[] = [];
  let changed = false;
  for (const observation of useful) {
    const { jobId, ref, kind } = observation;
    const job = jobs.get(jobId);
    try {
      const verdict = job === undefined ? 'known' : await follow(worker, job, observation, signal);
      const stored = verdict === 'known' || verdict === 'changed';
      changed ||= verdict === 'changed';
      // Only when its end is stored may the engine let go of a job: by this round, or by one that a crash cut short.
      if (stored && kind === 'finished') settled.push(jobId);
      if (stored && job !== undefined && kind === 'queued' && observation.held) held.set(jobId, ref);
      if (verdict === 'stray') strays.push(ref);
    } catch (error) {
      log.error({ err: error, hpc: system.name, jobId }, 'job not followed');
    }
  }
  if (held.size > 0) await release(worker, held, signal);
  if (strays.length > 0) await engine.discard(strays, signal);
  if (settled.length > 0) await engine.forget(settled, signal);
  return changed;
}

/** `known`, `changed`: what was observed is in the books. `stray`: it is not the submission that is. `later`: not now. */
type Verdict = 'known' | 'changed' | 'stray' | 'later';

async function follow(
  worker: LeasedSystem,
  known: UnfinishedJob,
  observation: Observation,
  signal: AbortSignal,
): Promise<Verdict> {
  const { db, lease: tenure, system, workspaces, now, log } = worker;
  // The dispatcher has not stored the engine's answer yet. If the job ended and were forgotten before it has, the
  // dispatcher would look for it in vain, and submit it again.
  if (known.state === 'accepted' || known.state === 'submitting') return 'later';
  if (known.engineRef !== observation.ref) return 'stray';
  if (!isStateChange(known.state, observation)) return 'known';
  const job = await findJob(db, observation.jobId);
  if (job === undefined) return 'known';
  const { isToBeCancelled } = job;
  const told = isToBeCancelled ? observation : await withOwnEnd(worker, observation, signal);
  const next = transition(job.status, told, isToBeCancelled);
  if (!next) return 'known';
  const ended = next.state === 'ended';
  const spaceBytes = ended ? await workspaces.measureBytes(job.jobId) : 0;
  const words = observation.engineMessage === undefined ? {} : { engineWords: observation.engineMessage };
  const stored = await advanceJob(tenure, job, system, { next, now: now(), spaceBytes, ...words });
  if (stored) worker.announce(job.owner);
  const outcome = ended ? { outcome: next.outcome, reason: next.reason } : {};
  if (stored) log.info({ hpc: system.name, jobId: job.jobId, state: next.state, ...outcome }, 'job moved on');
  return stored ? 'changed' : 'later';
}

/**
 * A controller that comes back from an older state can start a job again that has run, and call it cancelled when its node
 * refuses. Where the job has ended by itself and has left how, that is its end.
 */
async function withOwnEnd(
  { engine, workspaces }: LeasedSystem,
  observation: Observation,
  signal: AbortSignal,
): Promise<Observation> {
  if (observation.kind !== 'finished' || observation.outcome !== 'cancelled') return observation;
  const { jobId, ref } = observation;
  const trace = (
    await engine.inspectMissing(new Map([[jobId, { ref, workspace: workspaces.pathsOf(jobId) }]]), signal)
  ).get(jobId);
  return typeof trace === 'object' && trace.exitCode !== null ? { ...observation, ...trace } : observation;
}
