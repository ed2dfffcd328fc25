import { sql } from 'kysely';
import {
  type CancelRequester,
  fileLimits,
  type JobEnd,
  type JobRequest,
  type JobState,
  type JobStatus,
} from '../../domain/jobs/job.ts';
import type { Db, Tx } from '../database/handle.ts';
import { insertRows, type Param, prepareQuery } from '../database/prepared.ts';
import type { Row } from '../database/tables.ts';
import { type NewEvent, queueDeliveries, recipientColumns, toEventRow } from '../events/events.ts';

export type JobRecord = ReturnType<typeof toJobRecord>;

/** The public JSON of a job, and the columns copied from it for filters. */
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
  /** The zip; its content is null if it is a file in the spool. */
  input: { sha256: string; bytes: number; unpackedBytes: number; content: Buffer | null } | null;
  acceptedAt: number;
  /** The span of its submission, as a W3C `traceparent`. */
  traceParent?: string | null;
}

/**
 * Inserts an accepted job, its zip, its tags and its first event. `toPublic` makes the public JSON, which contains the
 * record id. Also returns how many unfinished jobs the owner has now: the caller rolls back if these are too many.
 */
export async function insertJob(
  tx: Tx,
  job: NewJob,
  toPublic: (id: number) => PublicJobColumns,
  eventData: NewEvent['data'],
): Promise<{ id: number; json: string; unfinishedJobs: number }> {
  const [numbers] = await takeNextNumbers(tx, { owner: job.owner });
  if (numbers === undefined) throw new Error(`there is no user ${job.owner}`);
  const { nextId: id, unfinishedJobs, ...owner } = numbers;
  const publicColumns = toPublic(id);
  const row = {
    id,
    jobId: job.jobId,
    owner: job.owner,
    projectId: job.project.id,
    hpc: job.project.hpc,
    projectName: job.project.name,
    request: JSON.stringify(job.request),
    units: job.units,
    inputSha256: job.input?.sha256 ?? null,
    inputBytes: job.input?.bytes ?? 0,
    unpackedBytes: job.input?.unpackedBytes ?? 0,
    state: 'accepted' as const,
    acceptedAt: job.acceptedAt,
    dueAt: job.acceptedAt,
    tries: 0,
    traceParent: job.traceParent ?? null,
    ...toColumns(publicColumns),
  };
  const { content = null } = job.input ?? {};
  const { tags = [] } = job.request;
  const jobJson = publicColumns.json;
  const event = { job: id, jobJson, kind: 'job.accepted', data: eventData, at: job.acceptedAt } as const;
  await insertRows(tx, {
    jobs: [row],
    inputs: content === null ? [] : [{ job: id, content }],
    jobTags: tags.map((tag) => ({ tag, job: id, owner: job.owner })),
    events: [toEventRow(owner, event)],
  });
  await queueDeliveries(tx, [owner]);
  return { id, json: publicColumns.json, unfinishedJobs };
}

/**
 * Takes the next record id, event number and jobs version, and counts the job as unfinished. The owner's row stays locked
 * until the commit, so that the jobs of a user become visible in the order of their ids.
 */
const takeNextNumbers = prepareQuery((db, param: Param<{ owner: string }>) =>
  db
    .updateTable('users')
    .set((eb) => ({
      jobsVersion: eb('jobsVersion', '+', 1),
      eventSeq: eb('eventSeq', '+', 1),
      unfinishedJobs: eb('unfinishedJobs', '+', 1),
    }))
    .where('id', '=', param('owner'))
    .returning([...recipientColumns, 'unfinishedJobs'])
    .returning(sql<number>`${sql.raw(db.backend.dialect.nextId('jobs'))}`.as('nextId')),
);

function toColumns({ json, title, stage, isTerminal, isFailure }: PublicJobColumns) {
  return { publicJson: json, title, stage, terminal: isTerminal ? 1 : 0, failed: isFailure ? 1 : 0 };
}

/** Finds a job of any user by its public id. */
export async function findJob(db: Db, jobId: string): Promise<JobRecord | undefined> {
  const row = await db.selectFrom('jobs').selectAll().where('jobId', '=', jobId).executeTakeFirst();
  return row && toJobRecord(row);
}

export async function findJobState(db: Db, id: number): Promise<JobState | undefined> {
  return (await db.selectFrom('jobs').select('state').where('id', '=', id).executeTakeFirst())?.state;
}

/**
 * Writes the next status of a job and its public JSON. Returns false, without a change, if the state has changed since the
 * job was read. The owner's row is locked before the job's, as in `insertJob`, so that transactions do not deadlock.
 */
export async function updateStatus(
  tx: Tx,
  job: JobRecord,
  next: JobStatus,
  publicColumns: PublicJobColumns,
  engineRef?: string,
): Promise<boolean> {
  const isChanged = publicColumns.json !== job.publicJson;
  await lockJobsVersion(tx, job.owner, { increment: isChanged });
  const result = await tx
    .updateTable('jobs')
    .set({
      state: next.state,
      ...toColumns(publicColumns),
      ...(job.status.state === 'submitting' ? { delayedAt: null, delayReason: null } : {}),
      ...(next.state === 'running' ? { startedAt: next.startedAt } : {}),
      ...(next.state === 'ended' || next.state === 'deleted' ? endColumns(next) : {}),
      ...(engineRef === undefined ? {} : { engineRef }),
    })
    .where('id', '=', job.id)
    .where('state', '=', job.status.state)
    .executeTakeFirst();
  if (result.numUpdatedRows === 0n) return false;
  if (next.state === 'ended') await countEndedJob(tx, { owner: job.owner });
  return true;
}

const countEndedJob = prepareQuery((db, param: Param<{ owner: string }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ unfinishedJobs: eb('unfinishedJobs', '-', 1) }))
    .where('id', '=', param('owner')),
);

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

const updateJobsVersion = prepareQuery((db, param: Param<{ owner: string; by: number }>) =>
  db
    .updateTable('users')
    .set((eb) => ({ jobsVersion: eb('jobsVersion', '+', param('by')) }))
    .where('id', '=', param('owner'))
    .returning('jobsVersion as version'),
);

function endColumns({ outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds }: JobEnd) {
  return { outcome, reason, exitCode, startedAt, endedAt, elapsedSeconds };
}

type JobRow = Row<'jobs'>;

export function toJobRecord(row: JobRow) {
  return {
    ...row,
    project: { id: row.projectId, hpc: row.hpc, name: row.projectName },
    request: JSON.parse(row.request) as JobRequest,
    status: toJobStatus(row),
    hasInput: row.inputSha256 !== null,
    cancelRequestedBy: toCancelRequester(row),
  };
}

/** User ids consist of digits, so no user has the name of a limit. */
function toCancelRequester({ owner, cancelRequestedBy: by }: JobRow): CancelRequester | null {
  if (by === null) return null;
  return fileLimits.find((name) => name === by) ?? (by === owner ? 'owner' : 'administrator');
}

function toJobStatus(row: JobRow): JobStatus {
  if (row.state === 'running') return { state: 'running', startedAt: row.startedAt ?? row.acceptedAt };
  if (row.state !== 'ended' && row.state !== 'deleted') return { state: row.state };
  return {
    state: row.state,
    outcome: row.outcome ?? 'lost',
    reason: row.reason ?? '',
    exitCode: row.exitCode,
    startedAt: row.startedAt,
    endedAt: row.endedAt ?? row.acceptedAt,
    elapsedSeconds: row.elapsedSeconds ?? 0,
  };
}
