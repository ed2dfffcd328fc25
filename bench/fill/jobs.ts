import { sql } from 'kysely';
import { publicJob } from '../../src/contract/job.ts';
import type { JobStatus, StageNames } from '../../src/domain/jobs/job.ts';
import type { Tx } from '../../src/store/database/handle.ts';
import type { FilledProject } from './enrolments.ts';

/** The jobs of one transaction, as record ids. */
export interface JobRange {
  first: number;
  last: number;
}

export interface EndedJobs {
  /** The jobs `from` up to, but not including, `to`, of a fill with `total` jobs. */
  range: { from: number; to: number; total: number };
  firstUserId: number;
  userCount: number;
  projects: readonly FilledProject[];
  systems: Readonly<Record<string, { stages: StageNames }>>;
  now: number;
}

/** Every job had four cores for half a minute, and may have had them for an hour. */
export const usage = { units: 4, elapsedSeconds: 30, heldSeconds: 14_400, heldBytes: 60_000, usedBytes: 40_000 };

const minuteMs = 60_000;

/** Inserts ended jobs; 3 % have failed. Their public JSON is the same as that of real jobs. */
export async function insertEndedJobs(tx: Tx, options: EndedJobs): Promise<JobRange> {
  const { range, firstUserId, userCount, projects, now } = options;
  const first = (await tx.backend.dialect.lastId(tx, 'jobs')) + 1;
  const last = first + range.to - range.from - 1;
  const { randomHex, toUtcSeconds } = functions[tx.backend.dialect.name];
  const number = (value: number) => sql.lit(value);
  await sql`
    insert into jobs (id, job_id, owner, project_id, hpc, project_name, request, units, input_bytes, unpacked_bytes,
      state, outcome, reason, exit_code, started_at, ended_at, elapsed_seconds, engine_ref, accepted_at, due_at,
      tries, public_json, title, stage, failed, terminal)
    with recursive numbers (n) as (
      select ${number(range.from)} union all select n + 1 from numbers where n < ${number(range.to - 1)}),
    drawn as materialized (
      select n, cast(${number(firstUserId)} + (n / ${number(projects.length)}) % ${number(userCount)} as text) as owner,
        n % ${number(projects.length)} as project_index, case when n % 100 < 3 then 1 else 0 end as failed,
        'simulation ' || (n % 50) as title, ${sql.raw(randomHex)} as hex,
        ${number(now)} - (${number(range.total)} - n) * ${number(minuteMs)} as accepted_at
      from numbers),
    named as materialized (
      select drawn.*, n - ${number(range.from)} + ${number(first)} as id, accepted_at + ${number(minuteMs / 2)} as ended_at,
        substr(hex, 1, 8) || '-' || substr(hex, 9, 4) || '-' || substr(hex, 13, 4) || '-' || substr(hex, 17, 4) || '-'
          || substr(hex, 21) as job_id
      from drawn),
    templates (project_index, failed, project_id, hpc, name, outcome, reason, exit_code, stage, json) as (
      values ${sql.join(toTemplates(options))})
    select named.id, job_id, owner, project_id, hpc, templates.name, replace(${sql.lit(requestJson)}, '{title}', title),
      ${number(usage.units)}, 10000, 30000, 'ended', outcome, reason, exit_code, accepted_at, ended_at,
      ${number(usage.elapsedSeconds)}, cast(named.id as text), accepted_at, accepted_at, 1,
      replace(replace(replace(replace(replace(replace(json, '"id":0,', '"id":' || named.id || ','), '{job_id}', job_id),
        '{owner}', owner), '{title}', title), '{accepted}', ${sql.raw(toUtcSeconds('accepted_at'))}),
        '{ended}', ${sql.raw(toUtcSeconds('ended_at'))}),
      title, stage, failed, 1
    from named join templates using (project_index, failed)
    order by named.id`.execute(tx);
  await tx.backend.dialect.setLastId(tx, 'jobs', last);
  await sql`
    update users set jobs_version = jobs_version + counted.jobs from
      (select owner, count(*) as jobs from jobs where id between ${first} and ${last} group by owner) as counted
    where counted.owner = users.id`.execute(tx);
  return { first, last };
}

const functions = {
  sqlite: {
    randomHex: 'hex(randomblob(16))',
    toUtcSeconds: (column: string) => `strftime('%Y-%m-%dT%H:%M:%SZ', ${column} / 1000, 'unixepoch')`,
  },
  postgres: {
    randomHex: "upper(replace(cast(gen_random_uuid() as text), '-', ''))",
    toUtcSeconds: (column: string) =>
      `to_char(to_timestamp(${column} / 1000) at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')`,
  },
};

const requestJson = JSON.stringify({
  ...{ nodes: 1, coresPerNode: 4, tool: null, entry: null, title: '{title}', runtimeHours: 1 },
  command: { kind: 'line', line: 'srun ./simulate' },
});

/** The columns of succeeded and failed jobs of each project. */
function toTemplates({ projects, systems }: EndedJobs) {
  const acceptedAt = 0;
  const endedAt = 1000;
  const times = { startedAt: acceptedAt, endedAt, elapsedSeconds: usage.elapsedSeconds };
  const ends = [
    { outcome: 'succeeded', reason: '', exitCode: 0 },
    { outcome: 'failed', reason: 'exit code 1', exitCode: 1 },
  ] as const;
  return projects.flatMap((project, index) =>
    ends.map((end, failed) => {
      const stages = systems[project.hpc]?.stages;
      if (stages === undefined) throw new Error(`the stages of ${project.hpc} are unknown`);
      const status: JobStatus = { state: 'ended', ...end, ...times };
      const request = { title: '{title}', runtimeHours: 1 };
      const job = { id: 0, jobId: '{job_id}', owner: '{owner}', project, request, status, acceptedAt };
      const { json, stage } = publicJob(job, stages);
      const template = json.replace('1970-01-01T00:00:00Z', '{accepted}').replace('1970-01-01T00:00:01Z', '{ended}');
      const { id, hpc, name } = project;
      const columns = [index, failed, id, hpc, name, end.outcome, end.reason, end.exitCode, stage, template];
      return sql`(${sql.join(columns.map((value) => sql.lit(value)))})`;
    }),
  );
}
