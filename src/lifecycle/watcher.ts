import { type Observation, transition } from '../domain/transition.ts';
import { jobsInEngine, unfinishedJobs } from '../store/job-queue.ts';
import type { JobRecord } from '../store/jobs.ts';
import { advanceJob } from './advance.ts';
import { type Loop, startLoop } from './loop.ts';
import { release } from './release.ts';
import type { SystemWorker } from './system-worker.ts';

export interface Watcher extends Loop {
  /** When the engine last answered, in epoch milliseconds; null before its first answer. */
  lastSeenAt(): number | null;
}

/**
 * Follows the jobs of one system: one batched look at the engine a round, however many jobs and readers there are.
 * A round that fails, or that does not mention a job, changes nothing.
 */
export function startWatcher(worker: SystemWorker): Watcher {
  const { db, engine, system, watchMs, now, log } = worker;
  let seenAt: number | null = null;

  const loop = startLoop(async (signal) => {
    try {
      const observations = await engine.observe(await jobsInEngine(db, system.name), signal);
      seenAt = now();
      await record(worker, observations, signal);
    } catch (error) {
      if (!signal.aborted) log.warn({ err: error, hpc: system.name }, 'watching failed');
    }
    return watchMs;
  });
  engine.onChange(loop.wake);
  return { ...loop, lastSeenAt: () => seenAt };
}

async function record(worker: SystemWorker, observations: Observation[], signal: AbortSignal): Promise<void> {
  if (observations.length === 0) return;
  const { db, system, engine, log } = worker;
  // Read after the look at the engine: whoever is missing here has ended.
  const jobs = new Map((await unfinishedJobs(db, system.name)).map((job) => [job.jobId, job]));
  const settled: string[] = [];
  const held = new Map<string, string>();
  const strays: string[] = [];
  for (const observation of observations) {
    const { jobId, ref, kind } = observation;
    const job = jobs.get(jobId);
    try {
      const verdict = job === undefined ? 'stored' : await follow(worker, job, observation);
      // Only when its end is stored may the engine let go of a job: by this round, or by one that a crash cut short.
      if (verdict === 'stored' && kind === 'finished') settled.push(jobId);
      if (verdict === 'stored' && kind === 'queued' && observation.held) held.set(jobId, ref);
      if (verdict === 'stray') strays.push(ref);
    } catch (error) {
      log.error({ err: error, hpc: system.name, jobId }, 'job not followed');
    }
  }
  if (held.size > 0) await release(worker, held, signal);
  if (strays.length > 0) await engine.discard(strays, signal);
  if (settled.length > 0) await engine.forget(settled, signal);
}

/** `stored`: what was observed is in the books. `stray`: it is not the submission that is. `later`: not now. */
type Verdict = 'stored' | 'stray' | 'later';

async function follow(worker: SystemWorker, job: JobRecord, observation: Observation): Promise<Verdict> {
  const { db, system, workspaces, now, log } = worker;
  // The dispatcher has not stored the engine's answer yet. If the job ended and were forgotten before it has, the
  // dispatcher would look for it in vain, and submit it again.
  if (job.status.state === 'accepted' || job.status.state === 'submitting') return 'later';
  if (job.engineRef !== observation.ref) return 'stray';
  const next = transition(job.status, observation);
  if (next === null) return 'stored';
  const ended = next.state === 'ended';
  const spaceBytes = ended ? await workspaces.measureBytes(job.jobId) : 0;
  const stored = await advanceJob(db, job, system, { next, now: now(), spaceBytes });
  const outcome = ended ? { outcome: next.outcome, reason: next.reason } : {};
  if (stored) log.info({ hpc: system.name, jobId: job.jobId, state: next.state, ...outcome }, 'job moved on');
  return stored ? 'stored' : 'later';
}
