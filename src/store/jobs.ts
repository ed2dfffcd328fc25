import { sql } from 'kysely';
import type { JobEnd, JobRequest, JobState, JobStatus } from '../domain/job.ts';
import type { Db, Tables } from './tables.ts';

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
  /** Whether its zip is in the spool; a job may come without one. */
  hasInput: boolean;
  acceptedAt: number;
  attempt: number;
  tries: number;
  /** The engine's own id of it, once that is stored. */
  engineRef: string | null;
  /** Whether its owner has asked for its end. */
  isToBeCancelled: boolean;
}

export interface NewJob {
  jobId: string;
  owner: string;
  project: { id: number; hpc: string; name: string };
  request: JobRequest;
  units: number;
  input: { sha256: string; bytes: number; unpackedBytes: number } | null;
  acceptedAt: number;
}

/** Inserts an accepted job. Its public JSON, which carries the number that the database gives it, is written with it. */
export async function insertJob(db: Db, job: NewJob, publicJson: (id: number) => string): Promise<number> {
  const { id } = await db
    .insertInto('jobs')
    .values({
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
      state: 'accepted',
      outcome: null,
      reason: null,
      exit_code: null,
      started_at: null,
      ended_at: null,
      elapsed_seconds: null,
      engine_ref: null,
      attempt: 1,
      accepted_at: job.acceptedAt,
      due_at: job.acceptedAt,
      tries: 0,
      cancel_requested_at: null,
      public_json: '',
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .updateTable('jobs')
    .set({ public_json: publicJson(id) })
    .where('id', '=', id)
    .execute();
  return id;
}

export interface JobFilter {
  /** Left out: everybody's, for administrators. */
  owner?: string;
  hpc?: string;
  project?: string;
}

/** The JSON array of jobs, by ascending record number, put together by the database. */
export async function jobListJson(db: Db, filter: JobFilter): Promise<string> {
  let query = db.selectFrom('jobs');
  if (filter.owner !== undefined) query = query.where('owner', '=', filter.owner);
  if (filter.hpc !== undefined) query = query.where('hpc', '=', filter.hpc);
  if (filter.project !== undefined) query = query.where('project_name', '=', filter.project);
  const { list } = await query
    .select(sql<string | null>`string_agg(public_json, ',' order by id)`.as('list'))
    .executeTakeFirstOrThrow();
  return `[${list ?? ''}]`;
}

export async function singleJobJson(db: Db, filter: JobFilter, jobId: string): Promise<string | undefined> {
  let query = db.selectFrom('jobs').select('public_json').where('job_id', '=', jobId);
  if (filter.owner !== undefined) query = query.where('owner', '=', filter.owner);
  if (filter.hpc !== undefined) query = query.where('hpc', '=', filter.hpc);
  if (filter.project !== undefined) query = query.where('project_name', '=', filter.project);
  return (await query.executeTakeFirst())?.public_json;
}

/** A job by its public identifier, whosever it is. */
export async function findJob(db: Db, jobId: string): Promise<JobRecord | undefined> {
  const row = await db.selectFrom('jobs').selectAll().where('job_id', '=', jobId).executeTakeFirst();
  return row && jobRecord(row);
}

export async function findJobState(db: Db, id: number): Promise<JobState | undefined> {
  return (await db.selectFrom('jobs').select('state').where('id', '=', id).executeTakeFirst())?.state;
}

/**
 * Writes a job's next status, its public JSON with it. False, and nothing written, when the job has moved on since
 * it was read.
 */
export async function updateStatus(
  db: Db,
  job: JobRecord,
  next: JobStatus,
  publicJson: string,
  engineRef?: string,
): Promise<boolean> {
  const result = await db
    .updateTable('jobs')
    .set({
      state: next.state,
      public_json: publicJson,
      ...(next.state === 'running' ? { started_at: next.startedAt } : {}),
      ...(next.state === 'ended' || next.state === 'deleted' ? endColumns(next) : {}),
      ...(engineRef === undefined ? {} : { engine_ref: engineRef }),
    })
    .where('id', '=', job.id)
    .where('state', '=', job.status.state)
    .executeTakeFirst();
  return result.numUpdatedRows === 1n;
}

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

export function jobRecord(row: JobRow): JobRecord {
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
    isToBeCancelled: row.cancel_requested_at !== null,
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
