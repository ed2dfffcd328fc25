import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createScheduler } from '../../../simulation/scheduler.ts';
import { engineContract } from '../engine-contract.ts';
import type { EngineHarness } from '../engine-harness.ts';
import { newLocalJob } from '../local/harness.ts';
import { neverAborted } from '../observing.ts';
import { startProcess } from './process-node.ts';

/** The scheduler outlives its engines, as Slurm does. */
async function simulatedHarness(): Promise<EngineHarness> {
  const root = await mkdtemp(join(tmpdir(), 'bursar-simulated-'));
  const scheduler = createScheduler({ coresPerNode: 4, startProgram: startProcess });
  const engine = scheduler.createEngine();
  await engine.open(neverAborted);
  return {
    engine,
    newJob: (overrides) => newLocalJob(root, overrides),
    async reopen() {
      await engine.close();
      const next = scheduler.createEngine();
      await next.open(neverAborted);
      return next;
    },
    async close() {
      await scheduler.stopAll();
      await rm(root, { recursive: true, force: true });
    },
    wholeSystem: { nodes: 1, coresPerNode: 4 },
    minRuntimeSeconds: 1,
    keepsFinishedJobs: true,
    outputGoesDirectlyToFiles: true,
    cancelReason: 'cancelled',
  };
}

engineContract('the simulated engine', simulatedHarness, { concurrency: 4 });
