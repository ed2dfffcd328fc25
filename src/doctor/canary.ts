import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Engine, SiteOptions } from '../engines/engine.ts';
import type { Workspaces } from '../files/workspaces.ts';
import { type Finding, finding } from './finding.ts';

const limits = { maxEntries: 1, maxUnpackedBytes: 0, maxRatio: 1 };

/** Sends a real job through an engine, from its workspace to its end, and removes what it left. */
export async function runCanary(
  engine: Engine,
  workspaces: Workspaces,
  site: SiteOptions,
  patienceMs: number,
): Promise<Finding[]> {
  const jobId = `DOCTOR-${randomUUID().toUpperCase()}`;
  const signal = AbortSignal.timeout(patienceMs);
  const staged = await finding(
    'a workspace can be made',
    'Give the user that Bursar (or its service account) runs as the right to write there, and see that there is room.',
    async () => {
      await workspaces.stage(jobId, null, limits);
      return workspaces.pathsOf(jobId).directory;
    },
  );
  if (!staged.ok) return [staged];
  const ran = await finding(
    'a canary job runs',
    'See what the job printed and what the system says of it. On a cluster: does the workspace folder have the same path on its nodes?',
    async () => {
      const workspace = workspaces.pathsOf(jobId);
      const job = { jobId, nodes: 1, coresPerNode: 1, runtimeSeconds: 60, workspace, site };
      const line = 'touch canary && echo alive';
      const ref = await engine.submit({ ...job, command: { kind: 'line', line } }, signal);
      await engine.release(new Map([[jobId, ref]]), signal);
      for (;;) {
        const seen = (await engine.observe(new Map([[jobId, ref]]), signal)).find((one) => one.jobId === jobId);
        if (seen?.kind === 'finished') {
          await engine.forget([jobId], signal);
          if (seen.outcome !== 'succeeded') throw new Error(`it ended as ${seen.outcome}: ${seen.reason}`);
          if ((await workspaces.measureBytes(jobId)) === 0) throw new Error('what it printed did not come back');
          return `it ran for ${seen.elapsedSeconds} s`;
        }
        await sleep(200, undefined, { signal });
      }
    },
  );
  if (!ran.ok) await engine.cancel(jobId, AbortSignal.timeout(10_000)).catch(() => undefined);
  await workspaces.remove(jobId).catch(() => undefined);
  return [staged, ran];
}
