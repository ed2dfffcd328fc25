import { type Kysely, sql } from 'kysely';

/** Stores with each job the owner's `jobs_version` of its last change, so that readers can read only later changes. */
export const jobVersions = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      // Existing jobs get version 0, which every reader has already seen.
      'alter table jobs add column version bigint not null default 0',
      'create index jobs_by_version on jobs (owner, version)',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
