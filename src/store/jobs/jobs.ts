import { sql } from 'kysely';
import type { JobEnd, JobRequest, JobState, JobStatus } from '../../domain/jobs/job.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, rowBuilder } from '../database/inserts.ts';
import { prepared, type Value } from '../database/prepared.ts';
import type { Tables } from '../database/tables.ts';
import { type NewEvent, queueDeliveries, recipientColumns, toEventRows } from '../events/events.ts';
import { toInputRows } from './inputs.ts';

/** A job as the lifecycle knows it. */
export interface JobRecord {
  id: number;
  jobId: string;
  owner: string;
  project: { id: number; hpc: string; name: string };
  request: JobRequest;
  status: JobStatus;
  /** Charged seconds for each second that it runs. */
  units: number;
  /** A job may come without a zip. */
  hasInput: boolean;
  acceptedAt: number;
  attempt: number;
  tries: number;
  /** The engine's own id of it, once that is stored. */
  engineRef: string | null;
  /** Whether its owner has asked for its end. */
  isCancelRequested: boolean;
  publicJson: string;
}

/** What callers see of a job: its public JSON, and what of it lists are filtered by. */
export interface PublicJobColumns {
  json: string;
  title: string;
  stage: string;
  isTerminal: boolean;
  isFailure: boolean;
}

export interface NewJob {
  jobId: string;
  owner: string;
  project: { id: number; hpc: string; name: string };
  request: JobRequest;
  units: number;
  /** Its zip: what is known of it, and its content unless that is a file. */
  input: { sha256: string; bytes: number; unpackedBytes: number; content: Buffer | null } | null;
  acceptedAt: number;
}

/**
 * Inserts an accepted job with its zip, and the event that tells of it. What callers see, which carries the number that the database
 * gives the job, is written with it.
 */
export async function insertJob(
  tx: Tx,
  job: NewJob,
  shown: (id: number) => PublicJobColumns,
  eventData: NewEvent['data'],
): Promise<{ id: number; json: string }> {
  const [numbers] = await takeNumbers(tx, { owner: job.owner });
  if (numbers === undefined) throw new Error(`there is no user ${job.owner}`);
  const { jobNumber: id, version, ...owner } = numbers;
  const view = shown(id);
  const row = {
    id,
    job_id: job.jobId,
    owner: job.owner,
    project_id: job.project.id,
    hpc: job.project.hpc,
    project_name: job.project.name,
    request: JSON.stringify(job.request),
    units: job.units,
    input_sha256: job.input?.sha256 ?? null,
    input_bytes: job.input?.bytes ?? 0,
    unpacked_bytes: job.input?.unpackedBytes ?? 0,
    state: 'accepted' as const,
    attempt: 1,
    accepted_at: job.acceptedAt,
    due_at: job.acceptedAt,
    tries: 0,
    version,
    ...shownColumns(view),
  };
  const event = { job: id, jobJson: view.json, kind: 'job.accepted' as const, data: eventData, at: job.acceptedAt };
  const content = job.input?.content ?? null;
  const zip = content === null ? [] : [toInputRows([{ job: id, content }])];
  await insertRows(tx, acceptedRows([row]), ...zip, toEventRows(owner, event));
  await queueDeliveries(tx, [owner]);
  return { id, json: view.json };
}

/**
 * Takes the numbers of a job and of its first event, for one who has a new version of jobs from now on. The row of the
 * owner stays locked until the commit: so the jobs of one user become visible in the order of their numbers.
 */
const takeNumbers = prepared((db, value: Value<{ owner: string }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ jobs_version: eb('jobs_version', '+', 1), event_seq: eb('event_seq', '+', 1) }))
    .where('id', '=', value('owner'))
    .returning([...recipientColumns, 'jobs_version as version'])
    .returning(sql<number>`${sql.raw(db.backend.dialect.nextId('jobs'))}`.as('jobNumber')),
);

const acceptedRows = rowBuilder('jobs', [
  'id',
  'job_id',
  'owner',
  'project_id',
  'hpc',
  'project_name',
  'request',
  'units',
  'input_sha256',
  'input_bytes',
  'unpacked_bytes',
  'state',
  'attempt',
  'accepted_at',
  'due_at',
  'tries',
  'version',
  'public_json',
  'title',
  'stage',
  'terminal',
  'failed',
]);

function shownColumns({ json, title, stage, isTerminal, isFailure }: PublicJobColumns) {
  return { public_json: json, title, stage, terminal: isTerminal ? 1 : 0, failed: isFailure ? 1 : 0 };
}

/** A job by its public identifier, whosever it is. */
export async function findJob(db: Db, jobId: string): Promise<JobRecord | undefined> {
  const row = await db.selectFrom('jobs').selectAll().where('job_id', '=', jobId).executeTakeFirst();
  return row && toJobRecord(row);
}

export async function findJobState(db: Db, id: number): Promise<JobState | undefined> {
  return (await db.selectFrom('jobs').select('state').where('id', '=', id).executeTakeFirst())?.state;
}

/**
 * Writes a job's next status, and what callers see of it. False, and the job as it was, when it has moved on since it was
 * read. The row of its owner is locked first, as it is by whoever inserts a job: so nobody waits for the job of one who
 * waits for the owner.
 */
export async function updateStatus(
  tx: Tx,
  job: JobRecord,
  next: JobStatus,
  shown: PublicJobColumns,
  engineRef?: string,
): Promise<boolean> {
  const isChanged = shown.json !== job.publicJson;
  const version = await lockJobsVersion(tx, job.owner, { increment: isChanged });
  const result = await tx
    .updateTable('jobs')
    .set({
      state: next.state,
      ...shownColumns(shown),
      ...(isChanged ? { version } : {}),
      ...(next.state === 'running' ? { started_at: next.startedAt } : {}),
      ...(next.state === 'ended' || next.state === 'deleted' ? endColumns(next) : {}),
      ...(engineRef === undefined ? {} : { engine_ref: engineRef }),
    })
    .where('id', '=', job.id)
    .where('state', '=', job.status.state)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

/**
 * Locks the version of a user's jobs, and increments it if the public JSON of one of them is about to change. As long as
 * the version stays the same, on any instance, so do the user's jobs. Call it before writing a job: the user's row stays
 * locked until the commit, so a version becomes visible together with the job that carries it, and after all smaller
 * versions. A reader who has seen a version has therefore seen all earlier changes.
 */
export async function lockJobsVersion(tx: Tx, owner: string, { increment }: { increment: boolean }): Promise<number> {
  const [user] = await updateJobsVersion(tx, { owner, by: increment ? 1 : 0 });
  if (user === undefined) throw new Error(`there is no user ${owner}`);
  return user.version;
}

const updateJobsVersion = prepared((db, value: Value<{ owner: string; by: number }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ jobs_version: eb('jobs_version', '+', value('by')) }))
    .where('id', '=', value('owner'))
    .returning('jobs_version as version'),
);

function endColumns(end: JobEnd) {
  return {
    outcome: end.outcome,
    reason: end.reason,
    exit_code: end.exitCode,
    started_at: end.startedAt,
    ended_at: end.endedAt,
    elapsed_seconds: end.elapsedSeconds,
  };
}

type JobRow = Omit<Tables['jobs'], 'id'> & { id: number };

export function toJobRecord(row: JobRow): JobRecord {
  return {
    id: row.id,
    jobId: row.job_id,
    owner: row.owner,
    project: { id: row.project_id, hpc: row.hpc, name: row.project_name },
    request: JSON.parse(row.request) as JobRequest,
    status: jobStatus(row),
    units: row.units,
    hasInput: row.input_sha256 !== null,
    acceptedAt: row.accepted_at,
    attempt: row.attempt,
    tries: row.tries,
    engineRef: row.engine_ref,
    isCancelRequested: row.cancel_requested_at !== null,
    publicJson: row.public_json,
  };
}

function jobStatus(row: JobRow): JobStatus {
  if (row.state === 'running') return { state: 'running', startedAt: row.started_at ?? row.accepted_at };
  if (row.state !== 'ended' && row.state !== 'deleted') return { state: row.state };
  return {
    state: row.state,
    outcome: row.outcome ?? 'lost',
    reason: row.reason ?? '',
    exitCode: row.exit_code,
    startedAt: row.started_at,
    endedAt: row.ended_at ?? row.accepted_at,
    elapsedSeconds: row.elapsed_seconds ?? 0,
  };
}
