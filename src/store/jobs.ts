import type { JobEnd, JobRequest, JobState, JobStatus } from '../domain/job.ts';
import { prepared, type Value } from './prepared.ts';
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
  const [row] = await insertAccepted(db, {
    jobId: job.jobId,
    owner: job.owner,
    projectId: job.project.id,
    hpc: job.project.hpc,
    projectName: job.project.name,
    request: JSON.stringify(job.request),
    units: job.units,
    sha256: job.input?.sha256 ?? null,
    bytes: job.input?.bytes ?? 0,
    unpackedBytes: job.input?.unpackedBytes ?? 0,
    acceptedAt: job.acceptedAt,
    title: job.request.title,
  });
  if (row === undefined) throw new Error('a job that was inserted has a number');
  const { json, stage } = shown(row.id);
  await showAccepted(db, { id: row.id, json, stage });
  return row.id;
}

interface AcceptedColumns {
  jobId: string;
  owner: string;
  projectId: number;
  hpc: string;
  projectName: string;
  request: string;
  units: number;
  sha256: string | null;
  bytes: number;
  unpackedBytes: number;
  acceptedAt: number;
  title: string;
}

const insertAccepted = prepared((db, value: Value<AcceptedColumns>) =>
  db
    .insertInto('jobs')
    .values({
      job_id: value('jobId'),
      owner: value('owner'),
      project_id: value('projectId'),
      hpc: value('hpc'),
      project_name: value('projectName'),
      request: value('request'),
      units: value('units'),
      input_sha256: value('sha256'),
      input_bytes: value('bytes'),
      unpacked_bytes: value('unpackedBytes'),
      state: 'accepted',
      outcome: null,
      reason: null,
      exit_code: null,
      started_at: null,
      ended_at: null,
      elapsed_seconds: null,
      engine_ref: null,
      attempt: 1,
      accepted_at: value('acceptedAt'),
      due_at: value('acceptedAt'),
      tries: 0,
      cancel_requested_at: null,
      public_json: '',
      title: value('title'),
      stage: '',
      failed: 0,
      terminal: 0,
      expires_at: null,
    })
    .returning('id'),
);

const showAccepted = prepared((db, value: Value<{ id: number; json: string; stage: string }>) =>
  db
    .updateTable('jobs')
    .set({ public_json: value('json'), stage: value('stage') })
    .where('id', '=', value('id')),
);

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
