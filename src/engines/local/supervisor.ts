/**
 * Runs one job, in a process of its own, so that the job outlives Bursar: `supervisor.ts <record folder> <limits>`.
 * It claims the job, runs it, and records how it ended. Any number of supervisors may be started for a job: all but
 * the one that claims it end at once. Told to stop (SIGTERM), it cancels its job.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { systemErrorCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { endUnstarted, type JobLimits } from './ending.ts';
import { identify } from './processes.ts';
import { claim, isMarkedCancelled, readRequest, recordEnd, recordGroup } from './records.ts';
import { runJob } from './run-job.ts';

async function supervise(folder: string, limits: JobLimits): Promise<void> {
  // Before the claim: whoever reads the claim may send a signal.
  const stop = new AbortController();
  process.on('SIGTERM', () => stop.abort());
  process.on('SIGINT', () => stop.abort());
  process.on('SIGHUP', () => {});
  process.umask(0o077);

  const request = await readRequest(folder);
  if (typeof request === 'string') throw new Error(`request.json is ${request}`);
  const supervisor = await identify(process.pid);
  if (supervisor.mark === null) throw new Error('this process cannot be told from others');
  const startedAt = Date.now();
  if (!(await claim(folder, { kind: 'supervised', supervisor, startedAt }))) return;
  tellParent();

  const end = await runJob({
    job: request.job,
    limits,
    folder,
    startedAt,
    stop: stop.signal,
    isMarkedCancelled: () => isMarkedCancelled(folder),
    onLeader: (leader) => recordGroup(folder, leader),
  }).catch((error) => {
    console.error(error);
    return endUnstarted(
      'node_failed',
      `it could not be run (${systemErrorCode(error) ?? 'internal error'})`,
      Date.now(),
    );
  });
  await keepTrying(folder, end);
}

/** Wakes the Bursar that started this supervisor, if it is still there. */
function tellParent(): void {
  process.send?.('claimed', undefined, undefined, () => {
    if (process.connected) process.disconnect();
  });
}

/** A full disk is often not full for long, and an end that is not recorded makes the job a lost one. */
async function keepTrying(folder: string, end: JobEnd): Promise<void> {
  for (let attempt = 1; ; attempt++) {
    try {
      await recordEnd(folder, end);
      return;
    } catch (error) {
      if (systemErrorCode(error) === 'ENOENT' || attempt === 600) throw error;
      await sleep(1000);
    }
  }
}

const [folder, limits] = process.argv.slice(2);
if (folder === undefined || limits === undefined) throw new Error('usage: supervisor.ts <record folder> <limits>');
try {
  await supervise(folder, JSON.parse(limits));
} catch (error) {
  console.error(error);
  process.exitCode = 1;
}
process.exit();
