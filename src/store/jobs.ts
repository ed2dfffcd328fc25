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
      lease_owner: null,
      lease_until: 0,
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
    .select(sql<string | null>`group_concat(public_json, ',' order by id)`.as('list'))
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

const toDispatch: JobState[] = ['accepted', 'submitting'];
const unfinished: JobState[] = ['accepted', 'submitting', 'queued', 'running'];

/**
 * Leases the jobs of a system that are due to be submitted. Whoever holds the lease, and nobody else, may carry
 * such a job on until the lease runs out. The lease is also the stored intent to submit: a job that was tried
 * before may be known to the engine already.
 */
export async function leaseDueJobs(
  db: Db,
  hpc: string,
  lease: { owner: string; now: number; until: number },
  most: number,
): Promise<JobRecord[]> {
  const due = db
    .selectFrom('jobs')
    .select('id')
    .where('hpc', '=', hpc)
    .where('state', 'in', toDispatch)
    .where('due_at', '<=', lease.now)
    .where('lease_until', '<=', lease.now)
    .orderBy('id')
    .limit(most);
  const rows = await db
    .updateTable('jobs')
    .set((eb) => ({
      state: 'submitting',
      tries: eb('tries', '+', 1),
      lease_owner: lease.owner,
      lease_until: lease.until,
    }))
    .where('id', 'in', due)
    .returningAll()
    .execute();
  return rows.map(jobRecord).sort((a, b) => a.id - b.id);
}

/** When the next job of a system falls due, leases included; undefined when none is waiting. */
export async function nextDueAt(db: Db, hpc: string): Promise<number | undefined> {
  const row = await db
    .selectFrom('jobs')
    .select((eb) => eb.fn.min<number | null>(sql`max(due_at, lease_until)`).as('at'))
    .where('hpc', '=', hpc)
    .where('state', 'in', toDispatch)
    .executeTakeFirst();
  return row?.at ?? undefined;
}

/** Keeps a lease that is still one's own for longer. */
export async function renewLease(db: Db, id: number, leaseOwner: string, until: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ lease_until: until })
    .where('id', '=', id)
    .where('lease_owner', '=', leaseOwner)
    .execute();
}

/** Gives a job back to be tried again later. */
export async function postponeJob(db: Db, id: number, leaseOwner: string, dueAt: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ due_at: dueAt, lease_owner: null, lease_until: 0 })
    .where('id', '=', id)
    .where('lease_owner', '=', leaseOwner)
    .execute();
}

/** Lets go of all leases: for a server that has just taken the data folder for itself. */
export async function clearLeases(db: Db): Promise<void> {
  await db
    .updateTable('jobs')
    .set({ lease_owner: null, lease_until: 0, due_at: 0 })
    .where('state', 'in', toDispatch)
    .execute();
}

export async function unfinishedJobs(db: Db, hpc: string): Promise<JobRecord[]> {
  const rows = await db
    .selectFrom('jobs')
    .selectAll()
    .where('hpc', '=', hpc)
    .where('state', 'in', unfinished)
    .orderBy('id')
    .execute();
  return rows.map(jobRecord);
}

/** Notes that its owner wants a job to end; for one that has ended it changes nothing. */
export async function requestCancellation(db: Db, id: number, now: number): Promise<void> {
  await db
    .updateTable('jobs')
    .set((eb) => ({ cancel_requested_at: eb.fn.coalesce('cancel_requested_at', eb.val(now)) }))
    .where('id', '=', id)
    .where('state', 'in', unfinished)
    .execute();
}

/** The jobs of a system that an engine has, and whose owners want them to end. */
export async function jobsToCancel(db: Db, hpc: string): Promise<string[]> {
  const rows = await db
    .selectFrom('jobs')
    .select('job_id')
    .where('hpc', '=', hpc)
    .where('cancel_requested_at', 'is not', null)
    .where('state', 'in', ['queued', 'running'])
    .execute();
  return rows.map((row) => row.job_id);
}

/** Of these jobs, the ones whose files are not wanted any more: they are deleted, or there is no such job. */
export async function jobsWithoutFiles(db: Db, jobIds: readonly string[]): Promise<string[]> {
  const kept = new Set<string>();
  // A statement binds a limited number of values.
  for (let first = 0; first < jobIds.length; first += 1000) {
    const rows = await db
      .selectFrom('jobs')
      .select('job_id')
      .where('job_id', 'in', jobIds.slice(first, first + 1000))
      .where('state', '<>', 'deleted')
      .execute();
    for (const row of rows) kept.add(row.job_id);
  }
  return jobIds.filter((jobId) => !kept.has(jobId));
}

/** Of these job ids, the ones whose zip is still needed. */
export async function jobsAwaitingInput(db: Db): Promise<Set<string>> {
  const rows = await db.selectFrom('jobs').select('job_id').where('state', 'in', toDispatch).execute();
  return new Set(rows.map((row) => row.job_id));
}

/**
 * Writes a job's next status, its public JSON with it. False, and nothing written, when the job has moved on since
 * it was read, or when the lease that the caller worked under is no longer its own.
 */
export async function updateStatus(
  db: Db,
  job: JobRecord,
  next: JobStatus,
  publicJson: string,
  work: { leaseOwner?: string; engineRef?: string } = {},
): Promise<boolean> {
  let query = db
    .updateTable('jobs')
    .set({
      state: next.state,
      public_json: publicJson,
      ...(next.state === 'running' ? { started_at: next.startedAt } : {}),
      ...(next.state === 'ended' || next.state === 'deleted' ? endColumns(next) : {}),
      ...(work.engineRef === undefined ? {} : { engine_ref: work.engineRef }),
      lease_owner: null,
      lease_until: 0,
    })
    .where('id', '=', job.id)
    .where('state', '=', job.status.state);
  if (work.leaseOwner !== undefined) query = query.where('lease_owner', '=', work.leaseOwner);
  const result = await query.executeTakeFirst();
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
