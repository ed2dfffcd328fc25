import { setTimeout as sleep } from 'node:timers/promises';
import type { JobEnd } from '../../src/domain/jobs/job.ts';
import type { Observation } from '../../src/domain/jobs/transition.ts';
import type { Engine } from '../../src/engines/engine.ts';

/** A signal that never aborts. */
export const neverAborted = new AbortController().signal;

/** Waits for a condition, however slow the machine is; the limit is only there to end a test that cannot pass. */
export async function eventually<T>(what: string, check: () => Promise<T | null | undefined | false>): Promise<T> {
  for (
    let pauseMs = 10, waitedMs = 0;
    waitedMs < 180_000;
    waitedMs += pauseMs, pauseMs = Math.min(pauseMs * 1.5, 100)
  ) {
    const result = await check();
    if (result) return result;
    await sleep(pauseMs);
  }
  throw new Error(`this never happened: ${what}`);
}

/** One look, as the watcher takes it: with what the engine has of these jobs. */
export async function observeAll(engine: Engine, jobIds: readonly string[] = []): Promise<Observation[]> {
  return await engine.observe(await engine.find(jobIds, neverAborted), neverAborted);
}

export async function observeJob(engine: Engine, jobId: string): Promise<Observation | undefined> {
  return (await observeAll(engine, [jobId])).find((observation) => observation.jobId === jobId);
}

export async function waitUntilRunning(engine: Engine, jobId: string): Promise<{ startedAt: number }> {
  return eventually(`${jobId} runs`, async () => {
    const seen = await observeJob(engine, jobId);
    if (seen?.kind === 'finished') throw new Error(`${jobId} finished before it was seen running: ${seen.reason}`);
    return seen?.kind === 'running' && seen;
  });
}

export async function waitUntilFinished(engine: Engine, jobId: string): Promise<JobEnd> {
  return eventually(`${jobId} finishes`, async () => {
    const seen = await observeJob(engine, jobId);
    return seen?.kind === 'finished' && seen;
  });
}
