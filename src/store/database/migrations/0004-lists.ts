import { type Kysely, sql } from 'kysely';

const statements = [
  // The filters of job lists, copied from the public JSON. Each index is in the order of the list, by id.
  "alter table jobs add column title text not null default ''",
  "alter table jobs add column stage text not null default ''",
  'alter table jobs add column failed integer not null default 0',
  'alter table jobs add column terminal integer not null default 0',
  'create index jobs_by_owner_system on jobs (owner, hpc, id)',
  'create index jobs_by_system on jobs (hpc, id)',
  'create index jobs_of_project on jobs (hpc, project_name, id)',
  'create index jobs_by_acceptance on jobs (accepted_at, id)',
  'create index jobs_by_owner_stage on jobs (owner, stage, id)',
  'create index jobs_by_stage on jobs (stage, id)',
  'create index jobs_by_title on jobs (title, owner, id)',
  'create index jobs_failed on jobs (id) where failed = 1',
  'create index jobs_failed_by_owner on jobs (owner, id) where failed = 1',
  'create index jobs_open on jobs (id) where terminal = 0',
  'create index jobs_open_by_owner on jobs (owner, id) where terminal = 0',

  // Versions, for conditional requests and caches.
  'alter table users add column jobs_version bigint not null default 0',
  'alter table accounts add column version bigint not null default 1',

  // Idempotent requests in progress, and their owners.
  'alter table idempotency add column claimed_by text',
  'alter table idempotency add column claimed_until bigint not null default 0',
  'alter table idempotency add column body_sha256 text',
  'create index idempotency_by_age on idempotency (at)',

  // When the files of a finished job will be deleted, as its owner was notified.
  'alter table jobs add column expires_at bigint',
  "create index jobs_to_announce on jobs (project_id, ended_at) where state = 'ended' and expires_at is null",
  "create index jobs_expiring on jobs (project_id, expires_at) where state = 'ended' and expires_at is not null",
];

/** Adds indexes and columns for filtered lists, versions, idempotent requests in progress and the retention of files. */
export const lists = {
  async up(db: Kysely<unknown>): Promise<void> {
    for (const statement of statements) await sql.raw(statement).execute(db);
    await fillFromPublicJson(db as Kysely<{ jobs: JobColumns }>);
  },
};

interface JobColumns {
  id: number;
  public_json: string;
  title: string;
  stage: string;
  failed: number;
  terminal: number;
}

async function fillFromPublicJson(db: Kysely<{ jobs: JobColumns }>): Promise<void> {
  for (let after = 0; ; ) {
    const rows = await db
      .selectFrom('jobs')
      .select(['id', 'public_json'])
      .where('id', '>', after)
      .orderBy('id')
      .limit(1000)
      .execute();
    for (const { id, public_json } of rows) {
      const { title, stage, failed, terminal_stage } = JSON.parse(public_json);
      const columns = { title, stage, failed: failed ? 1 : 0, terminal: terminal_stage ? 1 : 0 };
      await db.updateTable('jobs').set(columns).where('id', '=', id).execute();
      after = Number(id);
    }
    if (rows.length === 0) return;
  }
}
