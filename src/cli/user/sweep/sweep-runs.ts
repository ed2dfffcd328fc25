import { ApiError, type Bursar, type Job } from '#client';
import { createSlots } from '../../../domain/slots.ts';
import type { TargetedSettings } from '../submit/choose-system.ts';
import type { Combination } from '../submit/parameters.ts';
import { attemptTag, type SweepJournal, submissionKey, sweepTag } from './sweep-journal.ts';

const concurrentReads = 8;

/** One combination of a sweep, with its job as far as there is one. */
export interface SweepRun {
  combination: Combination;
  settings: TargetedSettings;
  /** The number of the current attempt; 0 before the first one. */
  attempt: number;
  job: Job | null;
  /** Of a job that has ended. */
  outcome: string | null;
  collectedTo: string | null;
  isSubmitting: boolean;
}

export const isUnfinished = ({ isSubmitting, job }: SweepRun) => isSubmitting || (job !== null && !job.terminal_stage);
export const hasEnded = ({ job }: SweepRun) => job?.terminal_stage === true;
export const hasFailed = ({ job }: SweepRun) => job?.failed === true;

/** A cancelled job has not failed, and has no results either. Its stage has no fixed name, so that its outcome decides. */
export const hasSucceeded = (run: SweepRun) => hasEnded(run) && !hasFailed(run) && run.outcome !== 'cancelled';

/** Creates the runs of a sweep from its journal, and reads the jobs that exist. */
export async function loadRuns(
  client: Bursar,
  journal: SweepJournal,
  planned: readonly Pick<SweepRun, 'combination' | 'settings'>[],
  signal: AbortSignal,
): Promise<SweepRun[]> {
  const jobs = new Map<string, Job>();
  const hasEntries = planned.some(({ combination }) => journal.find(combination) !== undefined);
  if (hasEntries)
    for await (const job of client.jobs({ tag: [sweepTag(journal.sweepId)], signal })) jobs.set(job.job_id, job);
  const reads = createSlots({ total: concurrentReads });
  return await Promise.all(planned.map((run) => reads.run(() => loadRun(client, journal, run, jobs, signal))));
}

async function loadRun(
  client: Bursar,
  journal: SweepJournal,
  { combination, settings }: Pick<SweepRun, 'combination' | 'settings'>,
  jobs: ReadonlyMap<string, Job>,
  signal: AbortSignal,
): Promise<SweepRun> {
  const entry = journal.find(combination);
  const run: SweepRun = {
    combination,
    settings,
    attempt: entry?.attempt ?? 0,
    job: entry?.job ? (jobs.get(entry.job.job_id) ?? (await client.job(entry.job).refresh({ signal }))) : null,
    outcome: entry?.outcome ?? null,
    collectedTo: entry?.collectedTo ?? null,
    isSubmitting: false,
  };
  // The process was killed before it could record the job, so that the job may exist.
  if (entry !== undefined && entry.job === null) await adoptJob(client, journal, run, signal);
  if (run.job?.terminal_stage && run.outcome === null) {
    run.outcome = await readOutcome(client, run.job, signal);
    if (run.outcome !== null) journal.addEnd(combination, run.outcome);
  }
  return run;
}

async function readOutcome(client: Bursar, job: Job, signal: AbortSignal): Promise<string | null> {
  const { entries } = await client.job(job).timeline({ signal });
  return entries.findLast(({ type }) => type === 'job.ended')?.outcome ?? null;
}

/** Finds the job of the current attempt by its tags, which last longer than its Idempotency-Key. */
async function adoptJob(client: Bursar, journal: SweepJournal, run: SweepRun, signal: AbortSignal): Promise<boolean> {
  const tag = [sweepTag(journal.sweepId), attemptTag(run.combination, run.attempt)];
  for await (const job of client.jobs({ tag, signal })) {
    recordJob(journal, run, job);
    return true;
  }
  return false;
}

function recordJob(journal: SweepJournal, run: SweepRun, job: Job): void {
  const { job_id, project_hpc, project_name } = job;
  journal.addJob(run.combination, { job_id, hpc: project_hpc.toLowerCase(), project_name });
  run.job = job;
}

/**
 * Submits the job of a run. The attempt is in the journal before the request is sent, and its key makes a repetition
 * return the same job, so that there is one job however often the process is killed.
 */
export async function submitRun(
  client: Bursar,
  journal: SweepJournal,
  run: SweepRun,
  submit: (settings: TargetedSettings, key: string) => Promise<Job>,
  signal: AbortSignal,
): Promise<void> {
  const { combination, settings } = run;
  const entry = journal.find(combination);
  // Another process may have announced it since this one has read the runs: both must use the same key.
  if (entry !== undefined && entry.job === null) run.attempt = entry.attempt;
  else {
    run.attempt += 1;
    journal.addAttempt(combination, run.attempt);
  }
  const tags = [...(settings.tags ?? []), sweepTag(journal.sweepId), attemptTag(combination, run.attempt)];
  try {
    const key = submissionKey(journal.sweepId, combination, run.attempt);
    recordJob(journal, run, await submit({ ...settings, tags }, key));
  } catch (error) {
    // The files of the folder have changed since the first request with this key, which was accepted.
    const isReused = error instanceof ApiError && error.code === 'idempotency_key_reused';
    if (!isReused || !(await adoptJob(client, journal, run, signal))) throw error;
  }
}
