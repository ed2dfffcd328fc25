import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Selectable } from 'kysely';
import { toTimeLimitSeconds } from '../src/domain/accounting/charge.ts';
import type { JobRequest, Outcome } from '../src/domain/jobs/job.ts';
import type { Db } from '../src/store/database/handle.ts';
import type { Tables } from '../src/store/database/tables.ts';
import { poolHolder } from '../src/store/ledger/accounts.ts';
import { verifyLedger } from '../src/store/ledger/verify-ledger.ts';
import { checkDeliveries, checkEvents } from './check-events.ts';
import {
  checkBalances,
  checkCommands,
  findOverspending,
  findWrongPeriods,
  listEntries,
  sumOfChanges,
} from './check-ledger.ts';
import type { Run } from './nodes.ts';
import { inputName, inputOf, maxSkewMs, type Plan } from './plan.ts';
import { titleOf } from './requests.ts';
import type { Scheduler } from './scheduler.ts';
import type { ClientLog, SentSubmission } from './users.ts';

type Job = Selectable<Tables['jobs']>;

export interface HistoryContext {
  plan: Plan;
  db: Db;
  scheduler: Scheduler;
  dataFolder: string;
  log: ClientLog;
}

/** The times of a report are rounded to seconds, and the controller learns of an end some seconds later. */
const toleranceSeconds = 2;
/** Bursar submits a job again until so many nodes have refused it. */
const maxRefusals = 5;
/** Bursar does not tell a cancellation shortly after an end from one before it. */
const maxClockDifferenceMs = 5000;

/** Lists unfinished work. Once the faults are over, the list must become empty. */
export async function findLeftovers({ db, scheduler, log }: HistoryContext): Promise<string[]> {
  const jobs = await db.selectFrom('jobs').select(['jobId', 'state', 'projectName', 'terminal']).execute();
  const deliveries = await db.selectFrom('deliveries').select('id').where('state', '=', 'pending').execute();
  const users = await db.selectFrom('users').select(['id', 'eventSeq']).execute();
  const unseen = users.filter(({ id, eventSeq }) => (log.events.get(id)?.length ?? eventSeq) !== eventSeq);
  return [
    ...jobs.filter(({ terminal }) => terminal === 0).map(({ jobId, state }) => `${jobId} has not ended: ${state}`),
    ...jobs
      .filter(({ state, projectName }) => state === 'ended' && projectName === 'side')
      .map(({ jobId }) => `the files of ${jobId} are kept after their retention period`),
    ...scheduler.unfinished().map((name) => `the scheduler still has ${name}`),
    ...deliveries.map(({ id }) => `delivery ${id} is still pending`),
    ...unseen.map(({ id, eventSeq }) => `user ${id} has seen ${log.events.get(id)?.length} of ${eventSeq} events`),
  ];
}

/** Lists files that nobody needs. Those that could not be removed must be gone after the next start of the servers. */
export async function findLeftFiles({ db, dataFolder, plan }: HistoryContext): Promise<string[]> {
  const jobs = await db.selectFrom('jobs').select(['jobId', 'state']).execute();
  const jobIds = new Set(jobs.map(({ jobId }) => jobId));
  const workspaces = new Set(readdirSync(join(dataFolder, 'workspaces')));
  const spooled = readdirSync(join(dataFolder, 'spool'), { recursive: true }).map(String);
  const zips = spooled.filter((name) => /\.(zip|part)$/.test(name));
  // Servers that share a folder keep files without a job for an hour: another server may be receiving them.
  const mayStay = (name: string) => plan.servers > 1 && !jobIds.has(name.replace('.zip', ''));
  return [
    ...jobs
      .filter(({ jobId, state }) => state === 'deleted' && workspaces.has(jobId))
      .map(({ jobId }) => `the files of ${jobId} are deleted and still there`),
    ...zips.filter((name) => !mayStay(name)).map((name) => `${name} is left in the spool`),
  ];
}

/** Compares the database with the responses that users got and with the runs on the nodes. */
export async function findProblems(history: HistoryContext): Promise<string[]> {
  const { db, log, scheduler } = history;
  const jobs = await db.selectFrom('jobs').selectAll().execute();
  const byTitle = Map.groupBy(jobs, ({ title }) => title);
  const entries = await listEntries(db);
  const charges = Map.groupBy(
    entries.filter(({ kind, holder }) => kind === 'charge' && holder !== poolHolder),
    ({ job }) => job,
  );
  const announcements = await db.selectFrom('events').select('job').where('kind', '=', 'job.running').execute();
  const announced = new Set(announcements.map(({ job }) => job));
  return [
    ...(await verifyLedger(db)).problems,
    ...(await findOverspending(db)),
    ...(await findWrongPeriods(history)),
    ...scheduler.repeatedReleases.map(
      (name) => `${name} was released although another submission of the job waits or has started`,
    ),
    ...log.submissions.flatMap((known) => checkSubmission(known, byTitle.get(titleOf(known.id)) ?? [])),
    ...jobs.flatMap((job) => {
      const known = log.submissions.find(({ id }) => titleOf(id) === job.title);
      return known
        ? [
            ...checkJob(job, known, scheduler.runs.get(job.jobId), sumOfChanges(charges.get(job.id)), {
              isAnnounced: announced.has(job.id),
              refusals: scheduler.countRefusals(job.jobId),
              skewMs: maxSkewMs(history.plan),
            }),
            ...checkFiles(history, job, known, scheduler.runs.has(job.jobId)),
          ]
        : [`${job.jobId} is nobody's`];
    }),
    ...checkBalances(entries, jobs),
    ...(await checkCommands(history, entries)),
    ...(await checkEvents(history, jobs)),
    ...(await checkDeliveries(history)),
  ];
}

/** An accepted submission has its job, a key has at most one job, and a refused submission has none. */
function checkSubmission({ id, answer, user, project }: SentSubmission, jobs: readonly Job[]): string[] {
  if (jobs.length > 1) return [`submission ${id} has ${jobs.length} jobs`];
  const [job] = jobs;
  if (job !== undefined && (job.owner !== user || job.projectName !== project))
    return [`${job.jobId} belongs to ${job.owner} in ${job.projectName}, not to ${user} in ${project}`];
  if (answer === null) return [];
  if ('error' in answer)
    return job === undefined ? [] : [`submission ${id} was refused (${answer.error}) and has a job`];
  return job?.jobId === answer.jobId ? [] : [`submission ${id} was answered with ${answer.jobId}, which is lost`];
}

/** The allowed outcomes of a job depend on these too, not only on its run. */
interface Circumstances {
  /** Whether the owner was told that the job runs. */
  isAnnounced: boolean;
  /** How many nodes refused the job. */
  refusals: number;
  skewMs: number;
}

/** Outcome and charge are what happened on the node. */
function checkJob(
  job: Job,
  known: SentSubmission,
  run: Run | undefined,
  charged: number,
  circumstances: Circumstances,
): string[] {
  const allowed = allowedOutcomes(known, run, circumstances);
  const problems: string[] = [];
  const { jobId, outcome } = job;
  // Each job has one node, and its project pays for cores.
  const units = known.cores;
  const { runtimeHours } = JSON.parse(job.request) as JobRequest;
  if (outcome === null || !allowed.includes(outcome))
    problems.push(`${jobId} ended as ${outcome} (${job.reason}), not ${allowed.join(' or ')}: ${describeRun(run)}`);
  const [min, max] = allowedSeconds(outcome, run, toTimeLimitSeconds(runtimeHours));
  if (charged < min * units || charged > max * units)
    problems.push(
      `${jobId} (${outcome}) is charged ${charged}, not ${min * units} to ${max * units}: ${describeRun(run)}`,
    );
  return problems;
}

function allowedOutcomes(
  { isRefused, cancelRequestedAt, runtimeHours }: SentSubmission,
  run: Run | undefined,
  { isAnnounced, refusals, skewMs }: Circumstances,
): Outcome[] {
  const possible: Outcome[] = [];
  // A job that has ended by itself, and whose end is recorded, cannot be cancelled later.
  const lastCancellation = (run?.endedAt ?? 0) + maxClockDifferenceMs + skewMs;
  const hasEnded = run?.record && run.stoppedBy === null && (cancelRequestedAt ?? 0) > lastCancellation;
  if (cancelRequestedAt !== null && !hasEnded) possible.push('cancelled');
  if (run === undefined) {
    if (isRefused) possible.push('rejected');
    // A job that never ran is submitted again until it does, unless its owner was told that it runs, or five nodes refused it.
    if (isAnnounced || refusals >= maxRefusals) possible.push('node_failed');
    return possible;
  }
  // A controller that was down stops it late, and one that missed its end reports that it reached its limit.
  if (secondsOf(run) >= toTimeLimitSeconds(runtimeHours) - toleranceSeconds) possible.push('timed_out');
  switch (run.stoppedBy) {
    case 'time limit':
    case 'cancellation':
      return possible;
    case 'node failure':
      return ['node_failed', 'lost', ...possible];
    case 'controller':
      // Its record says that a signal killed it, unless it was lost. The controller can report that it reached its limit.
      return ['node_failed', 'lost', 'failed', 'timed_out', ...possible];
    case null:
      return [run.exitCode === 0 ? 'succeeded' : 'failed', ...possible];
  }
}

/** Between which numbers of seconds a job may be charged. */
function allowedSeconds(
  outcome: Outcome | null,
  run: Run | undefined,
  limitSeconds: number,
): [min: number, max: number] {
  const isFree = outcome === null || ['rejected', 'lost', 'node_failed'].includes(outcome);
  if (run === undefined || isFree) return [0, 0];
  const seconds = secondsOf(run);
  // The controller shows the job as running until it notices that the node has failed.
  const isUnnoticed = run.stoppedBy === 'node failure' && outcome === 'cancelled';
  const max = isUnnoticed ? limitSeconds : Math.min(limitSeconds, Math.ceil(seconds) + toleranceSeconds);
  // A controller that has forgotten the start, or has queued the job again, reports it as one that never ran. If the node left
  // no record of the end, nothing says for how long it did.
  const isUnknown = run.record === null && run.isStartForgotten;
  const min = isUnknown ? 0 : Math.max(0, Math.min(limitSeconds, Math.floor(seconds)) - toleranceSeconds);
  return [min, max];
}

const secondsOf = ({ startedAt, endedAt }: Run) => ((endedAt ?? startedAt) - startedAt) / 1000;

function describeRun(run: Run | undefined): string {
  if (run === undefined) return 'it never ran';
  const { exitCode, stoppedBy, record } = run;
  return `it ran ${secondsOf(run)} s, exit code ${exitCode}, stopped by ${stoppedBy}, ${record ? 'with' : 'without'} a record`;
}

/** The files of a job are kept until their owner deletes them or their retention period is over. */
function checkFiles({ dataFolder, log }: HistoryContext, job: Job, known: SentSubmission, hasRun: boolean): string[] {
  const { jobId, state, projectName: project } = job;
  if (state === 'deleted')
    return project === 'side' || log.deletions.has(jobId)
      ? []
      : [`${jobId} is deleted although its project keeps files`];
  const isThere = hasInput(join(dataFolder, 'workspaces', jobId, 'files'), inputOf(known.zip, known.id));
  return hasRun && !isThere ? [`the files of ${jobId} are lost`] : [];
}

/** Whether a folder has the file of a zip, with this content. */
export function hasInput(folder: string, content: Buffer | null): boolean {
  const file = join(folder, inputName);
  if (content === null) return !existsSync(file);
  return existsSync(file) && readFileSync(file).equals(content);
}
