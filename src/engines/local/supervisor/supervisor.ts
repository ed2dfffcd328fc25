/**
 * The process that runs the local jobs of a server, so that they outlive it (`client.ts`). It claims each job that it is told to
 * run, runs it and records its end. When the server has closed the channel or has ended, it exits with the last job. SIGTERM
 * ends its jobs; after SIGHUP it looks at once for jobs that were cancelled.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../../domain/errors.ts';
import type { JobEnd } from '../../../domain/jobs/job.ts';
import { diskRetryMs, type ReservedFile } from '../durable-files.ts';
import { buildEndWithoutStart } from '../job-end.ts';
import { identifyProcess } from '../processes.ts';
import {
  claimJob,
  isCancellationRequested,
  isEnded,
  monotonicNowMs,
  readRequest,
  recordEnd,
  recordGroup,
  reserveEnd,
  type StartRecord,
} from '../records.ts';
import { createPrivateFiles } from '../sandbox.ts';
import type { RunMessage, SupervisorReport } from './client.ts';
import { createPipeStock } from './output.ts';
import { type RunSettings, runJob } from './run-job.ts';
import { lowerOwnPriority } from './start-program.ts';
import { createLimitWatcher } from './watch-limits.ts';

const limitWatcher = createLimitWatcher();
const privateFiles = createPrivateFiles();
const pipes = createPipeStock();
let jobsInProgress = 0;
let isStopping = false;

async function supervise(folder: string, settings: RunSettings): Promise<void> {
  if (isStopping) throw new Error('it was told to stop');
  const request = readRequest(folder);
  if (typeof request === 'string') throw new Error(`request.json is ${request}`);
  const supervisor = await identifyProcess(process.pid);
  if (supervisor.mark === null) throw new Error('the start time of this process cannot be read');
  // On a full disk this throws before the claim, and the job stays queued.
  const reservedEnd = await reserveEnd(folder);
  const startedAt = Date.now();
  const start = { kind: 'supervised', supervisor, startedAt, startedAtMonotonicMs: monotonicNowMs() } as const;
  if (!(await claimOrDiscard(folder, start, reservedEnd))) return;
  report({ kind: 'claimed', folder });

  const end = await runJob({
    ...settings,
    job: request.job,
    folder,
    startedAt,
    findStopRequest() {
      const byOwner = isCancellationRequested(folder);
      return byOwner || isStopping ? { kind: 'stop_requested', byOwner } : null;
    },
    isEnded: () => isEnded(folder),
    onExit: () => report({ kind: 'exited', folder }),
    onStarted(leader) {
      try {
        recordGroup(folder, { ...leader, isSandboxed: settings.sandbox !== undefined });
      } catch {
        // The disk is full. On Linux, a job whose supervisor dies is also found by its environment.
      }
    },
    limitWatcher,
    privateFiles,
    pipes,
  }).catch((error) => {
    console.error(folder, error);
    return buildEndWithoutStart(
      'node_failed',
      `it could not be run (${errnoCode(error) ?? 'internal error'})`,
      Date.now(),
    );
  });
  await recordEndWithRetries(folder, end, reservedEnd);
}

async function claimOrDiscard(folder: string, start: StartRecord, reserved: ReservedFile): Promise<boolean> {
  let isClaimed = false;
  try {
    isClaimed = await claimJob(folder, start);
  } finally {
    if (!isClaimed) reserved.discard();
  }
  return isClaimed;
}

/**
 * Retries for as long as it takes, because a job without a recorded end is lost. The space of the record is reserved, but
 * some file systems need more for every change, and the disk may be read-only.
 */
async function recordEndWithRetries(folder: string, end: JobEnd, reserved: ReservedFile): Promise<void> {
  for (;;) {
    try {
      await recordEnd(folder, end, reserved);
      return;
    } catch (error) {
      // The folder of the job was removed.
      if (errnoCode(error) === 'ENOENT') throw error;
      await sleep(diskRetryMs);
    }
  }
}

/** The server may have ended: then it has no use for the report. */
function report(message: SupervisorReport): void {
  if (process.connected) process.send?.(message, undefined, undefined, () => undefined);
}

/** The next job gets another supervisor. */
function endJobs(): void {
  isStopping = true;
  limitWatcher.checkStopRequests();
  if (process.connected) process.disconnect();
}

function exitIfUnused(): void {
  if (!process.connected && jobsInProgress === 0) process.exit();
}

process.umask(0o077);
lowerOwnPriority();
process.on('SIGTERM', endJobs);
process.on('SIGINT', endJobs);
process.on('SIGHUP', limitWatcher.checkStopRequests);
// An error that nothing handles must not end the jobs.
process.on('uncaughtException', (error) => console.error(error));
process.on('disconnect', exitIfUnused);
process.on('message', async ({ folder, settings }: RunMessage) => {
  jobsInProgress++;
  let failure: string | null = null;
  try {
    await supervise(folder, settings);
  } catch (error) {
    // Such as ENOSPC: the server reports it, and tells a supervisor again to run the job.
    failure = errnoCode(error) ?? String(error);
  }
  jobsInProgress--;
  report({ kind: 'ended', folder, failure });
  exitIfUnused();
});
