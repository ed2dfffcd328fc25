import { createHash, randomBytes } from 'node:crypto';
import { appendFileSync, linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { BursarError, errnoCode } from '../../../domain/errors.ts';
import { type Combination, describeCombination } from '../submit/parameters.ts';
import type { JobSettings } from '../submit/settings.ts';

/**
 * The journal of a sweep, `.bursar/sweep-<hash>.jsonl` in its folder. Each line is a record, and is on disk before the
 * step that it announces. After `kill -9` at any point the journal says which combinations may have a job:
 *
 * - without a record: none.
 * - `submitting`: the job may exist. Its key and its tag are those of the record, so it is found or submitted once.
 * - `submitted`: the job exists.
 *
 * A line that was cut off counts as not written. The hash names the folder's sweep by everything but the values of its
 * parameters, so that a sweep can be extended with more values.
 */
export interface SweepJournal {
  path: string;
  /** Random; part of every key and tag of this sweep. Reading it creates the journal. */
  readonly sweepId: string;
  find(combination: Combination): SweepEntry | undefined;
  /** Announces a submission. Must be called before the request is sent. */
  addAttempt(combination: Combination, attempt: number): SweepEntry;
  addJob(combination: Combination, job: SweepJob): void;
  /** Records how the job ended, so that nobody must read that again. */
  addEnd(combination: Combination, outcome: string): void;
  /** Records that all files of the job are in the folder of results. */
  addCollected(combination: Combination, folder: string): void;
}

/** A job as far as it is needed to find it again. */
export interface SweepJob {
  job_id: string;
  hpc: string;
  project_name: string;
}

export interface SweepEntry {
  attempt: number;
  job: SweepJob | null;
  /** Null if it is not known here. */
  outcome: string | null;
  collectedTo: string | null;
}

type JournalRecord =
  | { type: 'sweep'; version: 1; sweep_id: string }
  | { type: 'submitting'; combination: string; attempt: number }
  | { type: 'submitted'; combination: string; job: SweepJob }
  | { type: 'ended'; combination: string; outcome: string }
  | { type: 'collected'; combination: string; folder: string };

const stateFolder = '.bursar';

/** Opens the journal of a sweep. It is created with the first record. Two processes that create it get the same one. */
export function openSweepJournal(folder: string, identity: string): SweepJournal {
  const directory = join(folder, stateFolder);
  const path = join(directory, `sweep-${shortHash(identity)}.jsonl`);
  const entries = new Map<string, SweepEntry>();
  let sweepId: string | undefined;
  const load = (records: JournalRecord[]): string => {
    const [first] = records;
    if (first?.type !== 'sweep' || first.version !== 1) {
      throw new BursarError(
        'invalid_argument',
        `${path} is not a journal of this version. Move it away to start anew.`,
      );
    }
    for (const record of records) applyRecord(entries, record);
    return first.sweep_id;
  };
  const requireId = (): string => {
    if (sweepId === undefined) {
      mkdirSync(directory, { recursive: true });
      sweepId = load(createJournal(path));
    }
    return sweepId;
  };
  const add = (record: JournalRecord) => {
    requireId();
    appendFileSync(path, `${JSON.stringify(record)}\n`, { flush: true });
    applyRecord(entries, record);
  };
  const existing = readRecords(path);
  if (existing !== null) sweepId = load(existing);
  return {
    path,
    get sweepId() {
      return requireId();
    },
    find: (combination) => entries.get(toKey(combination)),
    addAttempt(combination, attempt) {
      const key = toKey(combination);
      add({ type: 'submitting', combination: key, attempt });
      return entries.get(key) ?? newEntry(attempt);
    },
    addJob: (combination, { job_id, hpc, project_name }) =>
      add({ type: 'submitted', combination: toKey(combination), job: { job_id, hpc, project_name } }),
    addEnd: (combination, outcome) => add({ type: 'ended', combination: toKey(combination), outcome }),
    addCollected: (combination, collectedTo) =>
      add({ type: 'collected', combination: toKey(combination), folder: collectedTo }),
  };
}

const newEntry = (attempt: number): SweepEntry => ({ attempt, job: null, outcome: null, collectedTo: null });

function applyRecord(entries: Map<string, SweepEntry>, record: JournalRecord): void {
  if (record.type === 'sweep') return;
  const entry = entries.get(record.combination);
  if (record.type === 'submitting') {
    entries.set(record.combination, newEntry(record.attempt));
  } else if (entry !== undefined && record.type === 'submitted') entry.job = record.job;
  else if (entry !== undefined && record.type === 'ended') entry.outcome = record.outcome;
  else if (entry !== undefined && record.type === 'collected') entry.collectedTo = record.folder;
}

/** Null if there is no journal. */
function readRecords(path: string): JournalRecord[] | null {
  let text: string;
  try {
    text = readFileSync(path, 'utf8');
  } catch (error) {
    if (errnoCode(error) === 'ENOENT') return null;
    throw error;
  }
  // The next record must not be appended to a line that was cut off.
  if (!text.endsWith('\n')) appendFileSync(path, '\n');
  return text.split('\n').flatMap((line) => {
    try {
      return [JSON.parse(line) as JournalRecord];
    } catch {
      return [];
    }
  });
}

/** Links a complete file to the path, so that nobody reads half of it, and the first of two processes wins. */
function createJournal(path: string): JournalRecord[] {
  const record: JournalRecord = { type: 'sweep', version: 1, sweep_id: randomBytes(6).toString('hex') };
  const temporary = `${path}.${record.sweep_id}`;
  writeFileSync(temporary, `${JSON.stringify(record)}\n`, { flush: true });
  try {
    linkSync(temporary, path);
    return [record];
  } catch (error) {
    const records = errnoCode(error) === 'EEXIST' ? readRecords(path) : null;
    if (records === null) throw error;
    return records;
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Everything that makes two sweeps of a folder different ones, except the values of their parameters. */
export function describeSweep(url: string, settings: JobSettings, parameterNames: readonly string[]): string {
  const { system, project, command, tool, nodes, cores, runtime, title, tags, params } = settings;
  const fixed = Object.entries(params).toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = parameterNames.toSorted();
  return JSON.stringify([url, system, project, command, tool, nodes, cores, runtime, title, tags, fixed, names]);
}

/** The Idempotency-Key of an attempt: a request that is sent again, by any process, returns the same job. */
export function submissionKey(sweepId: string, combination: Combination, attempt: number): string {
  return `sweep-${sweepId}-${shortHash(toKey(combination))}-${attempt}`;
}

/** Tags find the jobs of a sweep, and the job of an attempt after the key has expired. */
export function sweepTag(sweepId: string): string {
  return `sweep-${sweepId}`;
}

export function attemptTag(combination: Combination, attempt: number): string {
  return `run-${shortHash(toKey(combination))}-${attempt}`;
}

/** The order of the parameters does not matter. */
function toKey(combination: Combination): string {
  return describeCombination(Object.fromEntries(Object.entries(combination).toSorted(([a], [b]) => (a < b ? -1 : 1))));
}

function shortHash(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 12);
}
