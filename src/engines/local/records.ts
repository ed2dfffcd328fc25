import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { readdir, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { errnoCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { syncFolder } from '../../files/sync-folder.ts';

import type { EngineJob } from '../engine.ts';
import {
  isLeftover,
  parseWriterPid,
  publishFolder,
  type ReservedFile,
  removeFolder,
  replaceFile,
  replaceFileUnsynced,
  reserveFile,
  writeOnce,
} from './durable-files.ts';
import type { JobProcessSelector, ProcessId } from './process-table.ts';
import { processExists } from './processes.ts';

/**
 * Each job is a folder named after its id. Its files are the only source of the job's state. They appear in this order,
 * each one complete or absent:
 *
 *   request.json   the engine has accepted the job (the folder appears together with this file)
 *   offered        a supervisor may have been told to run the job
 *   start.json     the job is claimed: by the one supervisor that may run it, or by a cancellation
 *   group.json     the job's process group
 *   cancel         when the cancellation of the job was requested
 *   exit.json      how the job ended
 *
 * The first process to write start.json or exit.json wins, and the file never changes: a job runs at most once and has
 * one end, however many processes try.
 */
const files = {
  request: 'request.json',
  offered: 'offered',
  start: 'start.json',
  group: 'group.json',
  cancel: 'cancel',
  end: 'exit.json',
};

/**
 * Milliseconds since the boot of this machine, without times of suspension. All processes of the machine have the same
 * value, and a change of the wall clock does not affect it.
 */
export function monotonicNowMs(): number {
  return Number(process.hrtime.bigint() / 1_000_000n);
}

export interface RequestRecord {
  /** The position in the order of submission, across restarts. */
  sequence: number;
  job: EngineJob;
}

export type StartRecord =
  /** `startedAtMonotonicMs` is the start by `monotonicNowMs`. */
  | { kind: 'supervised'; supervisor: ProcessId; startedAt: number; startedAtMonotonicMs: number }
  /** Claimed so that the job never runs. Contains the end too, in case of a crash before exit.json is written. */
  | { kind: 'withdrawn'; end: JobEnd };

/** The first process of the job. */
export type GroupRecord = ProcessId & Required<Pick<JobProcessSelector, 'isSandboxed'>>;

/** `damaged`: the file exists, but the engine did not write it like this. */
export type RecordOrProblem<T> = T | 'absent' | 'damaged';

export const readRequest = (folder: string): RecordOrProblem<RequestRecord> =>
  readRecord(
    join(folder, files.request),
    ({ sequence, job }) =>
      typeof sequence === 'number' && hasFields(job, ...requestFields) && job.jobId === basename(folder),
  );
export const readStart = (folder: string): RecordOrProblem<StartRecord> =>
  readRecord(join(folder, files.start), isStart);
export const readGroup = (folder: string): RecordOrProblem<GroupRecord> =>
  readRecord(join(folder, files.group), (group: GroupRecord) => hasFields(group, 'isSandboxed') && isProcessId(group));
export const readEnd = (folder: string): RecordOrProblem<JobEnd> => readRecord(join(folder, files.end), isEnd);

/** After success a durable record of the job exists. An existing record is not changed. */
export function publishRequest(folder: string, request: RequestRecord): Promise<void> {
  return publishFolder(folder, files.request, JSON.stringify(request));
}

/** Returns true for exactly one caller: only that caller may run the job or end it without a run. */
export function claimJob(folder: string, start: StartRecord): Promise<boolean> {
  return writeOnce(join(folder, files.start), JSON.stringify(start));
}

/** Not durable: no process outlives a power failure. */
export function recordGroup(folder: string, group: GroupRecord): void {
  replaceFileUnsynced(join(folder, files.group), JSON.stringify(group));
}

/** More than an end record needs, and no more than a file occupies on most file systems. */
const reservedEndBytes = 4096;

/** Allocates the disk space for the end record, before the job runs. */
export function reserveEnd(folder: string): Promise<ReservedFile> {
  return reserveFile(join(folder, files.end), reservedEndBytes);
}

/** Records the end of the job unless one is recorded already. Returns the recorded end, which is final. */
export async function recordEnd(folder: string, end: JobEnd, reserved?: ReservedFile): Promise<JobEnd> {
  const path = join(folder, files.end);
  const content = JSON.stringify(end);
  if (await (reserved === undefined ? writeOnce(path, content) : reserved.writeOnce(content))) return end;
  const earlierEnd = readEnd(folder);
  if (typeof earlierEnd === 'object') return earlierEnd;
  // The existing file is damaged.
  await replaceFile(path, JSON.stringify(end));
  return end;
}

/** After success the request is durable: the supervisor polls for it, so that a lost signal only delays the end. */
export async function requestCancellation(folder: string): Promise<void> {
  await writeOnce(join(folder, files.cancel), String(monotonicNowMs()));
}

/** Returns when the cancellation was first requested, by `monotonicNowMs`. */
export const readCancellation = (folder: string): RecordOrProblem<number> =>
  readRecord(join(folder, files.cancel), (value: number) => typeof value === 'number');

export const isCancellationRequested = (folder: string) => existsSync(join(folder, files.cancel));
export const isEnded = (folder: string) => existsSync(join(folder, files.end));

export const hasRequest = (folder: string) => existsSync(join(folder, files.request));

/** Call this before a supervisor is told to run the job. Not durable: no supervisor outlives a power failure. */
export function recordOffer(folder: string): void {
  closeSync(openSync(join(folder, files.offered), 'a', 0o600));
}

export const isOffered = (folder: string) => existsSync(join(folder, files.offered));

/** Removes all records of a job atomically, so that a late supervisor never finds a request without its claim. */
export const removeJobFolder = removeFolder;

/** Lists the ids of all recorded jobs, after removing the incomplete files that crashes left. */
export async function listRecordedJobs(directory: string): Promise<string[]> {
  // After a crash, a record may be visible but not durable yet.
  await syncFolder(directory);
  const jobIds: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (isLeftover(entry.name)) await rm(path, { recursive: true, force: true });
    else if (entry.isDirectory() && !entry.name.startsWith('.') && (await cleanUpJobFolder(path)))
      jobIds.push(entry.name);
  }
  return jobIds;
}

/** Removes temporary files of dead writers. Returns false if the folder has no record. Keeps files of other programs. */
async function cleanUpJobFolder(folder: string): Promise<boolean> {
  for (const name of await readdir(folder)) {
    const pid = parseWriterPid(name);
    // A supervisor that was started before a restart may still be writing its file.
    if (pid !== null && !processExists(pid)) await rm(join(folder, name), { force: true });
  }
  if (hasRequest(folder) || existsSync(join(folder, files.start))) return true;
  await rmdir(folder).catch(() => {});
  return false;
}

function readRecord<T>(path: string, isComplete: (value: T) => boolean): RecordOrProblem<T> {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return 'absent';
    if (errnoCode(error) === 'EISDIR') return 'damaged';
    throw error;
  }
  try {
    const value: T = JSON.parse(text);
    return isComplete(value) ? value : 'damaged';
  } catch {
    return 'damaged';
  }
}

/** Throws for a value that is not an object. */
const hasFields = (value: object, ...fields: string[]) => fields.every((field) => field in value);

const requestFields = ['jobId', 'nodes', 'coresPerNode', 'runtimeSeconds', 'command', 'workspace'];

const isEnd = (end: JobEnd) =>
  hasFields(end, 'outcome', 'reason', 'exitCode', 'startedAt', 'endedAt', 'elapsedSeconds');

const isStart = (start: StartRecord) =>
  start.kind === 'withdrawn'
    ? isEnd(start.end)
    : hasFields(start, 'startedAt', 'startedAtMonotonicMs') && isProcessId(start.supervisor);

/** The processes of such an id get signals. */
const isProcessId = ({ pid, mark }: ProcessId) =>
  Number.isInteger(pid) && pid > 1 && (mark === null || typeof mark === 'string');
