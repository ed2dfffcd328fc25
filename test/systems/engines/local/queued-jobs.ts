import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { EngineJob } from '../../../../src/engines/engine.ts';
import { publishRequest } from '../../../../src/engines/local/records.ts';
import type { LocalHarness } from '../../../engines/local/harness.ts';
import { neverAborted, waitUntilRunning } from '../../../engines/observing.ts';
import { runOnce, runUntilReleased } from '../../../engines/test-jobs.ts';

/** Submits a job that occupies all cores, and a second one that waits for it. */
export async function queueBehind(h: LocalHarness, overrides: Pick<EngineJob, 'command'>) {
  const [holder, queued] = [await h.newJob({ ...runUntilReleased, ...h.wholeSystem }), await h.newJob(overrides)];
  for (const job of [holder, queued]) await h.engine.submit(job, neverAborted);
  await waitUntilRunning(h.engine, holder.jobId);
  return { holder, queued };
}

/** Queues more jobs than a poll reads, behind a job that occupies all cores, and returns the last one of them. */
export async function queueMany(h: LocalHarness): Promise<{ holder: EngineJob; last: EngineJob }> {
  const { holder, queued } = await queueBehind(h, runUntilReleased);
  await h.engine.close();
  for (let sequence = 3; sequence < 63; sequence++) {
    const job = { ...queued, jobId: `many-${sequence}`, ...runOnce };
    await mkdir(h.recordOf(job));
    await writeFile(join(h.recordOf(job), 'request.json'), JSON.stringify({ sequence, job }));
  }
  const last = await h.newJob(runUntilReleased);
  await publishRequest(h.recordOf(last), { sequence: 63, job: last });
  return { holder, last };
}
