import type { JobEnd, JobRequest, JobState, JobStatus } from '../domain/job.ts';
import type { Db, Tables } from './tables.ts';
import { raiseJobsVersion } from './versions.ts';

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
  publicJson: string;
}

/** What callers see of a job: its public JSON, and what of it lists are filtered by. */
export interface ShownJob {
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
  input: { sha256: string; bytes: number; unpackedBytes: number } | null;
  acceptedAt: number;
}

/** Inserts an accepted job. What callers see, which carries the number that the database gives it, is written with it. */
export async function insertJob(db: Db, job: NewJob, shown: (id: number) => ShownJob): Promise<number> {
  // Before the job has its number: so the jobs of one user become visible in the order of their numbers.
  await raiseJobsVersion(db, job.owner);
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
      title: job.request.title,
      stage: '',
      failed: 0,
      terminal: 0,
      expires_at: null,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db
    .updateTable('jobs')
    .set(shownColumns(shown(id)))
    .where('id', '=', id)
    .execute();
  return id;
}

function shownColumns({ json, title, stage, isTerminal, isFailure }: ShownJob) {
  return { public_json: json, title, stage, terminal: isTerminal ? 1 : 0, failed: isFailure ? 1 : 0 };
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
 * Writes a job's next status, and what callers see of it. False, and nothing written, when the job has moved on since
 * it was read.
 */
export async function updateStatus(
  db: Db,
  job: JobRecord,
  next: JobStatus,
  shown: ShownJob,
  engineRef?: string,
): Promise<boolean> {
  const result = await db
    .updateTable('jobs')
    .set({
      state: next.state,
      ...shownColumns(shown),
      ...(next.state === 'running' ? { started_at: next.startedAt } : {}),
      ...(next.state === 'ended' || next.state === 'deleted' ? endColumns(next) : {}),
      ...(engineRef === undefined ? {} : { engine_ref: engineRef }),
    })
    .where('id', '=', job.id)
    .where('state', '=', job.status.state)
    .executeTakeFirst();
  if (result.numUpdatedRows !== 1n) return false;
  if (shown.json !== job.publicJson) await raiseJobsVersion(db, job.owner);
  return true;
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
