import { type Kysely, sql } from 'kysely';

/** Stores with each job that its system does not accept since when and why, so that readers on every instance see it. */
export const delayedJobs = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      'alter table jobs add column delayed_at bigint',
      'alter table jobs add column delay_reason text',
      'create index jobs_delayed on jobs (hpc) where delayed_at is not null',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
