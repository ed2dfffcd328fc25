import { randomUUID } from 'node:crypto';
import Sqlite from 'better-sqlite3';
import { publicJob } from '../src/contract/job.ts';
import type { JobStatus } from '../src/domain/jobs/job.ts';
import { shippedConfig } from '../test/support/shipped-config.ts';

/** Jobs to be put straight into the books of a SQLite file. */
export interface JobSeed {
  jobs: number;
  /** The owner of a job, by its place among them. */
  ownerOf(index: number): string;
  statusOf?(index: number): JobStatus;
  /** Their names and ids in the engine; new names, and ended long ago, without it. */
  engineJobs?: readonly { name: string; ref: string }[];
}

export interface StoredJob {
  id: number;
  jobId: string;
  owner: string;
  json: string;
  path: string;
}

/** So many are written in one transaction: a server on the same books can write in between. */
const jobsPerTransaction = 50_000;
const minuteMs = 60_000;

/**
 * Stores jobs in all projects of the shipped configuration (or, with engine jobs, in the first), a minute apart up to
 * now, three of a hundred failed. Without holds and events: they are there to be read. Answers those that are wanted.
 */
export function seedJobs(file: string, filling: JobSeed, wanted: (owner: string) => boolean = () => true): StoredJob[] {
  const { jobs, ownerOf, engineJobs } = filling;
  const books = new Sqlite(file);
  books.pragma('synchronous = OFF');
  const projects = books.prepare('select id, hpc, name from projects order by id').all() as ProjectRow[];
  const stored: StoredJob[] = [];
  const insert = books.prepare(insertJobSql);
  const insertUser = books.prepare(
    "insert into users (id, role, created_at) values (?, 'user', 0) on conflict do nothing",
  );
  const raise = books
    .prepare('update users set jobs_version = jobs_version + 1 where id = ? returning jobs_version')
    .pluck();
  const { last } = books.prepare('select coalesce(max(id), 0) as last from jobs').get() as { last: number };
  const now = Date.now();

  const part = books.transaction((from: number, to: number) => {
    for (let index = from; index < to; index++) {
      const project = projects[engineJobs ? 0 : index % projects.length];
      if (project === undefined) throw new Error('there is no project to store jobs in');
      const owner = ownerOf(index);
      const jobId = engineJobs?.[index]?.name ?? randomUUID().toUpperCase();
      const acceptedAt = now - (jobs - index) * minuteMs;
      const status = filling.statusOf?.(index) ?? endedStatus(index, acceptedAt);
      const request = { title: `simulation ${index % 50}`, runtimeHours: 1 };
      const facts = { id: last + 1 + index, jobId, owner, project, request, status, acceptedAt };
      const view = publicJob(facts, stageNames(project.hpc));
      const ended = status.state === 'ended';
      insertUser.run(owner);
      insert.run({
        ...{ id: facts.id, jobId, owner, projectId: project.id, hpc: project.hpc, project: project.name, acceptedAt },
        ...{ request: JSON.stringify({ ...requestDetails, ...request }), state: status.state },
        ...{ outcome: ended ? status.outcome : null, reason: ended ? status.reason : null },
        ...{ startedAt: ended ? acceptedAt : null, endedAt: ended ? status.endedAt : null },
        ...{ ref: engineJobs?.[index]?.ref ?? String(facts.id), json: view.json, title: view.title, stage: view.stage },
        ...{ failed: view.isFailure ? 1 : 0, terminal: view.isTerminal ? 1 : 0, version: raise.get(owner) },
      });
      const path = `/jobs/${project.hpc}/${project.name}/${jobId}/`;
      if (wanted(owner)) stored.push({ id: facts.id, jobId, owner, json: view.json, path });
    }
  });
  for (let from = 0; from < jobs; from += jobsPerTransaction)
    part.immediate(from, Math.min(jobs, from + jobsPerTransaction));
  books.pragma('wal_checkpoint(TRUNCATE)');
  books.close();
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
  const failed = index % 100 < 3;
  return {
    state: 'ended',
    outcome: failed ? 'failed' : 'succeeded',
    reason: failed ? 'exit code 1' : '',
    exitCode: failed ? 1 : 0,
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
    state, outcome, reason, exit_code, started_at, ended_at, elapsed_seconds, engine_ref, attempt, accepted_at, due_at,
    tries, public_json, title, stage, failed, terminal, version)
  values (@id, @jobId, @owner, @projectId, @hpc, @project, @request, 4, 10000, 30000,
    @state, @outcome, @reason, 0, @startedAt, @endedAt, 30, @ref, 1, @acceptedAt, @acceptedAt,
    1, @json, @title, @stage, @failed, @terminal, @version)`;
