import { randomUUID } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import { publicJob } from '../src/contract/job.ts';
import type { JobStatus } from '../src/domain/jobs/job.ts';
import { shippedConfig } from '../test/support/shipped-config.ts';

/** Jobs to insert directly into a SQLite database. */
export interface JobSeed {
  jobs: number;
  /** The owner of the job with this index. */
  ownerOf(index: number): string;
  statusOf?(index: number): JobStatus;
  /** Names and engine ids of the jobs; by default they get new names and have ended. */
  engineJobs?: readonly { name: string; ref: string }[];
}

export interface StoredJob {
  id: number;
  jobId: string;
  owner: string;
  json: string;
  path: string;
}

/** A server on the same database can write between two of these transactions. */
const jobsPerTransaction = 50_000;
const minuteMs = 60_000;

/**
 * Inserts jobs into all projects of the shipped configuration (or, with engine jobs, into the first one), accepted one
 * minute apart up to now; 3 % have failed. They have no holds and no events, because they are only read. Returns the jobs
 * whose owner `isReturned`.
 */
export function seedJobs(
  file: string,
  seed: JobSeed,
  isReturned: (owner: string) => boolean = () => true,
): StoredJob[] {
  const { jobs, ownerOf, engineJobs } = seed;
  const database = new Sqlite(file);
  database.pragma('synchronous = OFF');
  const projects = database.prepare('select id, hpc, name from projects order by id').all() as ProjectRow[];
  const stored: StoredJob[] = [];
  const insert = database.prepare(insertJobSql);
  const insertUser = database.prepare(
    "insert into users (id, role, created_at) values (?, 'user', 0) on conflict do nothing",
  );
  const incrementVersion = database.prepare('update users set jobs_version = jobs_version + 1 where id = ?');
  const { lastId } = database.prepare('select coalesce(max(id), 0) as lastId from jobs').get() as { lastId: number };
  const now = Date.now();

  const insertRange = database.transaction((from: number, to: number) => {
    for (let index = from; index < to; index++) {
      const project = projects[engineJobs ? 0 : index % projects.length];
      if (project === undefined) throw new Error('the database has no project');
      const owner = ownerOf(index);
      const jobId = engineJobs?.[index]?.name ?? randomUUID().toUpperCase();
      const acceptedAt = now - (jobs - index) * minuteMs;
      const status = seed.statusOf?.(index) ?? endedStatus(index, acceptedAt);
      const request = { title: `simulation ${index % 50}`, runtimeHours: 1 };
      const job = { id: lastId + 1 + index, jobId, owner, project, request, status, acceptedAt };
      const view = publicJob(job, stageNames(project.hpc));
      const hasEnded = status.state === 'ended';
      insertUser.run(owner);
      incrementVersion.run(owner);
      insert.run({
        ...{ id: job.id, jobId, owner, projectId: project.id, hpc: project.hpc, project: project.name, acceptedAt },
        ...{ request: JSON.stringify({ ...requestDetails, ...request }), state: status.state },
        ...{ outcome: hasEnded ? status.outcome : null, reason: hasEnded ? status.reason : null },
        ...{ startedAt: hasEnded ? acceptedAt : null, endedAt: hasEnded ? status.endedAt : null },
        ...{ ref: engineJobs?.[index]?.ref ?? String(job.id), json: view.json, title: view.title, stage: view.stage },
        ...{ failed: view.isFailure ? 1 : 0, terminal: view.isTerminal ? 1 : 0 },
      });
      const path = `/jobs/${project.hpc}/${project.name}/${jobId}/`;
      if (isReturned(owner)) stored.push({ id: job.id, jobId, owner, json: view.json, path });
    }
  });
  for (let from = 0; from < jobs; from += jobsPerTransaction)
    insertRange.immediate(from, Math.min(jobs, from + jobsPerTransaction));
  database.pragma('wal_checkpoint(TRUNCATE)');
  database.close();
  return stored;
}

interface ProjectRow {
  id: number;
  hpc: string;
  name: string;
}

const requestDetails = {
  ...{ nodes: 1, coresPerNode: 4, tool: null, entry: null },
  command: { kind: 'line', line: 'srun ./simulate' },
};

function endedStatus(index: number, acceptedAt: number): JobStatus {
  const hasFailed = index % 100 < 3;
  return {
    state: 'ended',
    outcome: hasFailed ? 'failed' : 'succeeded',
    reason: hasFailed ? 'exit code 1' : '',
    exitCode: hasFailed ? 1 : 0,
    startedAt: acceptedAt,
    endedAt: acceptedAt + minuteMs / 2,
    elapsedSeconds: 30,
  };
}

const { systems } = shippedConfig();

function stageNames(hpc: string) {
  const stages = systems[hpc]?.stages;
  if (stages === undefined) throw new Error(`${hpc} is not in the shipped configuration`);
  return stages;
}

const insertJobSql = `
  insert into jobs (id, job_id, owner, project_id, hpc, project_name, request, units, input_bytes, unpacked_bytes,
    state, outcome, reason, exit_code, started_at, ended_at, elapsed_seconds, engine_ref, accepted_at, due_at,
    tries, public_json, title, stage, failed, terminal)
  values (@id, @jobId, @owner, @projectId, @hpc, @project, @request, 4, 10000, 30000,
    @state, @outcome, @reason, 0, @startedAt, @endedAt, 30, @ref, @acceptedAt, @acceptedAt,
    1, @json, @title, @stage, @failed, @terminal)`;
