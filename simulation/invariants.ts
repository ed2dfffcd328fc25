import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Selectable } from 'kysely';
import { toMessageId } from '../src/contract/webhook.ts';
import { calculateCostSeconds, toTimeLimitSeconds } from '../src/domain/accounting/price.ts';
import { availableBalance } from '../src/domain/accounting/settlement.ts';
import type { JobRequest, Outcome } from '../src/domain/jobs/job.ts';
import type { Db } from '../src/store/database/handle.ts';
import type { Tables } from '../src/store/database/tables.ts';
import { verifyLedger } from '../src/store/ledger/verify-ledger.ts';
import type { Run } from './nodes.ts';
import type { Plan } from './plan.ts';
import type { Scheduler } from './scheduler.ts';
import { type ClientLog, type SentSubmission, titleOf, webhookEvents } from './users.ts';

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

/** Lists unfinished work. Once the faults are over, the list must become empty. */
export async function findLeftovers({ db, scheduler, dataFolder, plan, log }: HistoryContext): Promise<string[]> {
  const jobs = await db.selectFrom('jobs').select(['job_id', 'state']).where('terminal', '=', 0).execute();
  const deliveries = await db.selectFrom('deliveries').select('id').where('state', '=', 'pending').execute();
  const users = await db.selectFrom('users').select(['id', 'event_seq']).execute();
  const unseen = users.filter(({ id, event_seq }) => (log.events.get(id)?.length ?? event_seq) !== event_seq);
  // Servers that share a folder keep files without a job for an hour: another server may be receiving them.
  const zips =
    plan.servers > 1
      ? []
      : readdirSync(join(dataFolder, 'spool'), { recursive: true }).filter((name) =>
          /\.(zip|part)$/.test(String(name)),
        );
  return [
    ...jobs.map(({ job_id, state }) => `${job_id} has not ended: ${state}`),
    ...scheduler.unfinished().map((name) => `the scheduler still has ${name}`),
    ...deliveries.map(({ id }) => `delivery ${id} is still pending`),
    ...unseen.map(({ id, event_seq }) => `user ${id} has seen ${log.events.get(id)?.length} of ${event_seq} events`),
    ...zips.map((name) => `${name} is left in the spool`),
  ];
}

/** Compares the database with the responses that users got and with the runs on the nodes. */
export async function findProblems(history: HistoryContext): Promise<string[]> {
  const { db, log, scheduler } = history;
  const jobs = await db.selectFrom('jobs').selectAll().execute();
  const byTitle = Map.groupBy(jobs, ({ title }) => title);
  const charges = new Map(
    (
      await db
        .selectFrom('resolutions')
        .innerJoin('holds', 'holds.id', 'resolutions.hold_id')
        .select(['holds.job', 'resolutions.time_seconds'])
        .execute()
    ).map(({ job, time_seconds }) => [job, time_seconds]),
  );
  const announcements = await db.selectFrom('events').select('job').where('kind', '=', 'job.running').execute();
  const announced = new Set(announcements.map(({ job }) => job));
  return [
    ...(await verifyLedger(db)).problems,
    ...(await findOverspending(db)),
    ...(await findWrongPeriods(history)),
    ...scheduler.repeatedReleases.map((name) => `${name} was released although the job had started before`),
    ...log.submissions.flatMap((known) => checkSubmission(known, byTitle.get(titleOf(known.id)) ?? [])),
    ...jobs.flatMap((job) => {
      const known = log.submissions.find(({ id }) => titleOf(id) === job.title);
      return known
        ? checkJob(job, known, scheduler.runs.get(job.job_id), announced.has(job.id), charges.get(job.id))
        : [`${job.job_id} is nobody's`];
    }),
    ...(await checkEvents(history, jobs)),
    ...(await checkDeliveries(history)),
    ...(await checkCommands(history)),
  ];
}

/** No job was accepted beyond the quota, and none pays more than it holds. */
export async function findOverspending(db: Db): Promise<string[]> {
  const accounts = await db.selectFrom('accounts').selectAll().where('resource', '=', 'time').execute();
  const overspent = accounts.filter((account) => availableBalance(account) < 0);
  return overspent.map((account) => `account ${account.id} is overspent: ${JSON.stringify(account)}`);
}

/** A job holds time of the period in which it was accepted. */
async function findWrongPeriods({ db, plan }: HistoryContext): Promise<string[]> {
  const holds = await db
    .selectFrom('holds')
    .innerJoin('jobs', 'jobs.id', 'holds.job')
    .innerJoin('accounts', 'accounts.id', 'holds.time_cap')
    .innerJoin('periods', 'periods.id', 'accounts.period_id')
    .select(['jobs.job_id', 'jobs.accepted_at', 'periods.starts_at', 'periods.ends_at'])
    .execute();
  // A period can begin by a clock that is behind that of the server that accepted a job before.
  const jumps = plan.timedFaults.map((fault) => (fault.kind === 'clock jump' ? Math.abs(fault.ms) : 0));
  const skewMs = jumps.reduce((sum, ms) => sum + ms, 0);
  const isOutside = (at: number, starts: number, ends: number | null) =>
    at < starts - skewMs || (ends !== null && at > ends + skewMs);
  const wrong = holds.filter(({ accepted_at, starts_at, ends_at }) => isOutside(accepted_at, starts_at, ends_at));
  return wrong.map(({ job_id }) => `${job_id} holds time of a period that it was not accepted in`);
}

/** An accepted submission has its job, a key has at most one job, and a refused submission has none. */
function checkSubmission({ id, answer }: SentSubmission, jobs: readonly Job[]): string[] {
  if (jobs.length > 1) return [`submission ${id} has ${jobs.length} jobs`];
  const [job] = jobs;
  if (answer === null) return [];
  if ('error' in answer)
    return job === undefined ? [] : [`submission ${id} was refused (${answer.error}) and has a job`];
  return job?.job_id === answer.jobId ? [] : [`submission ${id} was answered with ${answer.jobId}, which is lost`];
}

/** Outcome and charge are what happened on the node. */
function checkJob(job: Job, known: SentSubmission, run: Run | undefined, isAnnounced: boolean, charged = 0): string[] {
  const allowed = allowedOutcomes(known, run, isAnnounced, toTimeLimitSeconds(known.runtimeHours));
  const problems: string[] = [];
  const { job_id: jobId, outcome, units } = job;
  const { runtimeHours } = JSON.parse(job.request) as JobRequest;
  if (outcome === null || !allowed.includes(outcome))
    problems.push(`${jobId} ended as ${outcome} (${job.reason}), not ${allowed.join(' or ')}: ${describeRun(run)}`);
  const [min, max] = allowedSeconds(outcome, run, toTimeLimitSeconds(runtimeHours));
  if (charged < min * units || charged > max * units)
    problems.push(
      `${jobId} (${outcome}) is charged ${charged}, not ${min * units} to ${max * units}: ${describeRun(run)}`,
    );
  if (charged > calculateCostSeconds({ nodes: 1, coresPerNode: known.cores }, runtimeHours, 'core'))
    problems.push(`${jobId} is charged more than it held`);
  return problems;
}

function allowedOutcomes(
  { isRefused, isCancelRequested }: SentSubmission,
  run: Run | undefined,
  isAnnounced: boolean,
  limitSeconds: number,
): Outcome[] {
  const possible: Outcome[] = isCancelRequested ? ['cancelled'] : [];
  if (run === undefined) {
    if (isRefused) possible.push('rejected');
    // A job that never ran is submitted again until it does, unless its owner was told that it runs.
    if (isAnnounced) possible.push('node_failed');
    return possible;
  }
  // A controller that was down stops it late, and one that missed its end reports that it reached its limit.
  if (secondsOf(run) >= limitSeconds - toleranceSeconds) possible.push('timed_out');
  switch (run.stoppedBy) {
    case 'time limit':
    case 'cancellation':
      return possible;
    case 'node failure':
      return ['node_failed', 'lost', ...possible];
    case 'controller':
      // Its record says that a signal killed it, unless it was lost.
      return ['node_failed', 'lost', 'failed', ...possible];
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
  const isUnknown = run.record === null && run.isForgotten;
  const min = isUnknown ? 0 : Math.max(0, Math.min(limitSeconds, Math.floor(seconds)) - toleranceSeconds);
  return [min, max];
}

const secondsOf = ({ startedAt, endedAt }: Run) => ((endedAt ?? startedAt) - startedAt) / 1000;

function describeRun(run: Run | undefined): string {
  if (run === undefined) return 'it never ran';
  const { exitCode, stoppedBy, record } = run;
  return `it ran ${secondsOf(run)} s, exit code ${exitCode}, stopped by ${stoppedBy}, ${record ? 'with' : 'without'} a record`;
}

/** Event numbers have no gaps; a follower has seen them once and in order; a job ends once. */
async function checkEvents({ db, log }: HistoryContext, jobs: readonly Job[]): Promise<string[]> {
  const events = await db.selectFrom('events').selectAll().orderBy('user_id').orderBy('seq').execute();
  const problems: string[] = [];
  for (const [user, own] of Map.groupBy(events, ({ user_id }) => user_id)) {
    const gap = own.findIndex(({ seq }, index) => seq !== index + 1);
    if (gap >= 0) problems.push(`the events of user ${user} have a gap at ${gap + 1}`);
    const seen = log.events.get(user);
    const wrong = seen?.findIndex(({ id }, index) => id !== index + 1) ?? -1;
    if (wrong >= 0) problems.push(`user ${user} saw event ${seen?.[wrong]?.id} as number ${wrong + 1}`);
  }
  const byJob = Map.groupBy(events, ({ job }) => job);
  for (const { id, job_id: jobId, state } of jobs) {
    const kinds = (byJob.get(id) ?? []).map(({ kind }) => kind);
    const count = (kind: string) => kinds.filter((each) => each === kind).length;
    if (count('job.accepted') !== 1 || count('job.ended') !== 1)
      problems.push(`the events of ${jobId} are ${kinds.join(', ')}`);
    if (count('job.deleted') !== (state === 'deleted' ? 1 : 0))
      problems.push(`${jobId} has ${count('job.deleted')} deletions`);
    if (count('job.running') > 1) problems.push(`${jobId} started twice: ${kinds.join(', ')}`);
  }
  return problems;
}

/** Every event of the kinds that were asked for since the registration is delivered at least once, with a right signature. */
async function checkDeliveries({ db, log, plan }: HistoryContext): Promise<string[]> {
  const deliveries = await db
    .selectFrom('deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhook_id')
    .select(['deliveries.id', 'deliveries.event_id', 'deliveries.state', 'webhooks.user_id'])
    .execute();
  const webhooks = await db.selectFrom('webhooks').select(['user_id', 'created_at', 'disabled_at']).execute();
  const problems = log.wrongSignatures.map((id) => `message ${id} has a wrong signature`);
  for (const { id, state, user_id } of deliveries) {
    const count = log.received.get(`${user_id} ${toMessageId(id)}`) ?? 0;
    if (state === 'delivered' && count === 0)
      problems.push(`delivery ${id} counts as delivered and was never received`);
  }
  for (const { user_id, created_at, disabled_at } of webhooks) {
    // Events of a disabled user are not delivered.
    const wasDisabled = plan.actions.some((action) => action.kind === 'disable user' && action.user === user_id);
    if (disabled_at !== null || wasDisabled) continue;
    const delivered = new Set(deliveries.filter((each) => each.user_id === user_id).map(({ event_id }) => event_id));
    const events = await db
      .selectFrom('events')
      .select(['id', 'at'])
      .where('user_id', '=', user_id)
      .where('kind', 'in', webhookEvents)
      .execute();
    // The clocks of two servers differ by some seconds.
    const missing = events.filter(({ id, at }) => at > created_at + 20_000 && !delivered.has(id));
    if (missing.length > 0) problems.push(`user ${user_id} has no delivery of event ${missing[0]?.id}`);
  }
  return problems;
}

/** A command that was answered has its effect, once. */
async function checkCommands({ db, log }: HistoryContext): Promise<string[]> {
  const audit = await db.selectFrom('audit').select(['act', 'details']).execute();
  const entries = await db.selectFrom('entries').select(['reason', 'account_id']).execute();
  const problems: string[] = [];
  for (const [reason, action] of log.commands) {
    const count = audit.filter(({ details }) => JSON.parse(details).reason === reason).length;
    const expected = action.kind === 'disable user' ? 2 : 1;
    if (count !== expected) problems.push(`"${reason}" is in the audit trail ${count} times`);
    const accounts = entries.filter((entry) => entry.reason === reason).map(({ account_id }) => account_id);
    if (action.kind === 'grant' && (accounts.length !== 2 || new Set(accounts).size !== 2))
      problems.push(`"${reason}" has ${accounts.length} entries`);
  }
  return problems;
}
