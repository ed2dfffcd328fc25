import { access, readdir, readFile, rm, rmdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { systemErrorCode } from '../../domain/errors.ts';
import type { JobEnd } from '../../domain/jobs/job.ts';
import { syncFolder } from '../../files/sync-folder.ts';
import type { EngineJob } from '../engine.ts';
import { isLeftover, publishFolder, retireFolder, writeOnce, writeOver, writerOf } from './durable.ts';
import type { ProcessId } from './process-table.ts';
import { processExists } from './processes.ts';

/**
 * A job is a folder named after it. Its files appear in this order, each complete or not at all, and say what
 * has become of the job; nothing else does:
 *
 *   request.json   the engine has the job (the folder appears together with this file)
 *   start.json     somebody has claimed it: the one supervisor that may run it, or whoever withdrew it
 *   group.json     the processes it runs as
 *   cancel         its owner wants it to end
 *   exit.json      how it ended
 *
 * start.json and exit.json are written by whoever comes first and never change: a job runs at most once, and
 * ends in one way, however many processes try.
 */
const files = { request: 'request.json', start: 'start.json', group: 'group.json', cancel: 'cancel', end: 'exit.json' };

export interface RequestRecord {
  /** The order in which jobs were submitted, across restarts. */
  sequence: number;
  job: EngineJob;
}

export type StartRecord =
  | { kind: 'supervised'; supervisor: ProcessId; startedAt: number }
  /** Claimed in order that it never runs. The end is here too, in case of a crash before exit.json is written. */
  | { kind: 'withdrawn'; end: JobEnd };

/** `damaged`: there is a file, but it is not what the engine writes. */
export type Reading<T> = T | 'absent' | 'damaged';

export const readRequest = (folder: string): Promise<Reading<RequestRecord>> =>
  read(join(folder, files.request), (value): value is RequestRecord => isRequest(value, basename(folder)));
export const readStart = (folder: string): Promise<Reading<StartRecord>> => read(join(folder, files.start), isStart);
export const readGroup = (folder: string): Promise<Reading<ProcessId>> => read(join(folder, files.group), isProcessId);
export const readEnd = (folder: string): Promise<Reading<JobEnd>> => read(join(folder, files.end), isEnd);

/** Afterwards there is a durable record of the job; one that was there before is left as it was. */
export function publishRequest(folder: string, request: RequestRecord): Promise<void> {
  return publishFolder(folder, files.request, JSON.stringify(request));
}

/** True for the one caller, ever, who decides whether the job runs. */
export function claim(folder: string, start: StartRecord): Promise<boolean> {
  return writeOnce(join(folder, files.start), JSON.stringify(start));
}

export function recordGroup(folder: string, leader: ProcessId): Promise<void> {
  return writeOver(join(folder, files.group), JSON.stringify(leader));
}

/** Records how the job ended unless that is known already. The answer is the end that stands, for good. */
export async function recordEnd(folder: string, end: JobEnd): Promise<JobEnd> {
  const path = join(folder, files.end);
  if (await writeOnce(path, JSON.stringify(end))) return end;
  const first = await readEnd(folder);
  if (typeof first === 'object') return first;
  await writeOver(path, JSON.stringify(end));
  return end;
}

/** Afterwards the wish to end the job is durable: its supervisor sees it sooner or later even without a signal. */
export async function markCancelled(folder: string): Promise<void> {
  await writeOnce(join(folder, files.cancel), '');
}

export async function isMarkedCancelled(folder: string): Promise<boolean> {
  return exists(join(folder, files.cancel));
}

export function hasRecord(folder: string): Promise<boolean> {
  return exists(join(folder, files.request));
}

/** Removes the record at one stroke, so that no supervisor that comes late finds a request without its claim. */
export const removeRecord = retireFolder;

/** The names of all records, after removing what crashes have left half-written. */
export async function listRecords(directory: string): Promise<string[]> {
  // A crash may have come between a record and its being durable.
  await syncFolder(directory);
  const jobIds: string[] = [];
  for (const entry of await readdir(directory, { withFileTypes: true })) {
    const path = join(directory, entry.name);
    if (isLeftover(entry.name)) await rm(path, { recursive: true, force: true });
    else if (entry.isDirectory() && !entry.name.startsWith('.') && (await tidyRecord(path))) jobIds.push(entry.name);
  }
  return jobIds;
}

/** False when there is no record in the folder. What the engine did not write is left alone. */
async function tidyRecord(folder: string): Promise<boolean> {
  for (const name of await readdir(folder)) {
    const writer = writerOf(name);
    // A supervisor of an earlier life may be about to publish its file.
    if (writer !== null && !processExists(writer)) await rm(join(folder, name), { force: true });
  }
  if ((await hasRecord(folder)) || (await exists(join(folder, files.start)))) return true;
  await rmdir(folder).catch(() => {});
  return false;
}

async function read<T>(path: string, isValid: (value: unknown) => value is T): Promise<Reading<T>> {
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    if (systemErrorCode(error) === 'ENOENT') return 'absent';
    if (systemErrorCode(error) === 'EISDIR') return 'damaged';
    throw error;
  }
  try {
    const value: unknown = JSON.parse(text);
    return isValid(value) ? value : 'damaged';
  } catch {
    return 'damaged';
  }
}

const exists = (path: string) =>
  access(path).then(
    () => true,
    () => false,
  );

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isRequest(value: unknown, jobId: string): value is RequestRecord {
  if (!isObject(value) || typeof value.sequence !== 'number' || !isObject(value.job)) return false;
  const { job } = value;
  const numbers = [job.nodes, job.coresPerNode, job.runtimeSeconds];
  return (
    job.jobId === jobId &&
    numbers.every((number) => typeof number === 'number') &&
    isCommand(job.command) &&
    isObject(job.workspace) &&
    [job.workspace.directory, job.workspace.stdout, job.workspace.stderr].every((path) => typeof path === 'string')
  );
}

function isCommand(value: unknown): boolean {
  if (!isObject(value)) return false;
  const isWords = (words: unknown) => Array.isArray(words) && words.every((word) => typeof word === 'string');
  if (value.kind === 'line') return typeof value.line === 'string';
  if (value.kind === 'script') return typeof value.script === 'string' && isWords(value.args);
  return value.kind === 'argv' && isWords(value.argv);
}

function isStart(value: unknown): value is StartRecord {
  if (!isObject(value)) return false;
  if (value.kind === 'withdrawn') return isEnd(value.end);
  return value.kind === 'supervised' && typeof value.startedAt === 'number' && isProcessId(value.supervisor);
}

function isProcessId(value: unknown): value is ProcessId {
  const isMark = (mark: unknown) => mark === null || typeof mark === 'string';
  return isObject(value) && Number.isInteger(value.pid) && Number(value.pid) > 1 && isMark(value.mark);
}

function isEnd(value: unknown): value is JobEnd {
  if (!isObject(value)) return false;
  const isNumberOrNull = (number: unknown) => number === null || typeof number === 'number';
  return (
    typeof value.outcome === 'string' &&
    typeof value.reason === 'string' &&
    isNumberOrNull(value.exitCode) &&
    isNumberOrNull(value.startedAt) &&
    typeof value.endedAt === 'number' &&
    typeof value.elapsedSeconds === 'number'
  );
}
