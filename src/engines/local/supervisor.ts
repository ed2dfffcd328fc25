/**
 * Runs one job in a separate process, so that the job outlives Bursar: `supervisor.ts <record folder> <settings>`.
 * Claims the job, runs it, and records its end. Any number of supervisors may be started for a job: only the one that
 * claims the job runs it, all others exit at once. On SIGTERM the supervisor ends its job.
 */

import { setTimeout as sleep } from 'node:timers/promises';
import { errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { diskRetryMs } from './disk-retry.ts';
import type { ReservedFile } from './durable-files.ts';
import { buildEndWithoutStart } from './job-end.ts';
import { monotonicNowMs } from './monotonic-clock.ts';
import { identifyProcess } from './processes.ts';
import {
  claimJob,
  isCancellationRequested,
  readRequest,
  recordEnd,
  recordGroup,
  reserveEnd,
  type StartRecord,
} from './records.ts';
import { type RunSettings, runJob } from './run-job.ts';

async function supervise(folder: string, settings: RunSettings): Promise<void> {
  // Install the handlers before the claim: a process that reads the claim may send a signal at once.
  const stop = new AbortController();
  process.on('SIGTERM', () => stop.abort());
  process.on('SIGINT', () => stop.abort());
  process.on('SIGHUP', () => {});
  process.umask(0o077);

  const request = await readRequest(folder);
  if (typeof request === 'string') throw new Error(`request.json is ${request}`);
  const supervisor = await identifyProcess(process.pid);
  if (supervisor.mark === null) throw new Error('the start time of this process cannot be read');
  // On a full disk this throws before the claim, and the job stays queued.
  const reservedEnd = await reserveEnd(folder);
  const startedAt = Date.now();
  const start = { kind: 'supervised', supervisor, startedAt, startedAtMonotonicMs: monotonicNowMs() } as const;
  if (!(await claimOrDiscard(folder, start, reservedEnd))) return;
  notifyParent();

  const end = await runJob({
    ...settings,
    job: request.job,
    folder,
    startedAt,
    stop: stop.signal,
    isCancellationRequested: () => isCancellationRequested(folder),
    onStarted: (leader) => recordGroup(folder, { ...leader, isSandboxed: settings.sandbox !== undefined }),
  }).catch((error) => {
    console.error(error);
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
    if (!isClaimed) await reserved.discard();
  }
  return isClaimed;
}

/** Notifies the process that started this supervisor, if it still runs. */
function notifyParent(): void {
  process.send?.('claimed', undefined, undefined, () => {
    if (process.connected) process.disconnect();
  });
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

const [folder, settings] = process.argv.slice(2);
if (folder === undefined || settings === undefined) throw new Error('usage: supervisor.ts <record folder> <settings>');
// Without a top-level `await`: the build is CommonJS.
void supervise(folder, JSON.parse(settings))
  .catch((error: unknown) => {
    console.error(error);
    process.exitCode = 1;
  })
  .finally(() => process.exit());
