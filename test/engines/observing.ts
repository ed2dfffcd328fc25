import { setTimeout as sleep } from 'node:timers/promises';
import type { ReportedEnd } from '../../src/domain/jobs/job.ts';
import type { Observation } from '../../src/domain/jobs/transition.ts';
import type { Engine } from '../../src/engines/engine.ts';

/** A signal that never aborts. */
export const neverAborted = new AbortController().signal;

/**
 * Waits for a condition. The timeout is long, for slow machines, and only ends tests that cannot pass. The longer it waits, the
 * less often it checks, because a check may run several commands of Slurm.
 */
export async function eventually<T>(
  description: string,
  check: () => Promise<T | null | undefined | false>,
): Promise<T> {
  for (
    let pauseMs = 10, waitedMs = 0;
    waitedMs < 180_000;
    waitedMs += pauseMs, pauseMs = Math.min(pauseMs * 1.5, Math.max(100, waitedMs / 10), 1000)
  ) {
    const result = await check();
    if (result) return result;
    await sleep(pauseMs);
  }
  throw new Error(`timed out waiting for: ${description}`);
}

export async function observeAll(engine: Engine): Promise<Observation[]> {
  return await engine.observe(new Map(), neverAborted);
}

export async function observeJob(engine: Engine, jobId: string): Promise<Observation | undefined> {
  return await createObserver(engine, jobId)();
}

/** Observes a job as the watcher does, with the ref that the engine has for it. */
function createObserver(engine: Engine, jobId: string): () => Promise<Observation | undefined> {
  const job = { jobId, workspace: { directory: '/nowhere', stdout: '', stderr: '' } };
  let refs = new Map<string, string>();
  return async () => {
    // Read once: it is another command of Slurm.
    if (refs.size === 0) refs = await engine.find([job], neverAborted);
    return (await engine.observe(new Map(refs), neverAborted)).find((observation) => observation.jobId === jobId);
  };
}

export async function waitUntilRunning(engine: Engine, jobId: string): Promise<{ startedAt: number }> {
  const observe = createObserver(engine, jobId);
  return eventually(`${jobId} runs`, async () => {
    const observation = await observe();
    if (observation?.kind === 'finished')
      throw new Error(`${jobId} finished before it was seen running: ${observation.reason}`);
    return observation?.kind === 'running' && observation;
  });
}

export async function waitUntilFinished(engine: Engine, jobId: string): Promise<ReportedEnd> {
  const observe = createObserver(engine, jobId);
  return eventually(`${jobId} finishes`, async () => {
    const observation = await observe();
    return observation?.kind === 'finished' && observation;
  });
}
