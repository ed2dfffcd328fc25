import { type Kysely, sql } from 'kysely';

/** Which version of its owner's jobs a job last changed with: so that only what has changed since a look is read. */
export const jobVersions = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      // Those from before are of version 0, which everybody who has looked has seen.
      'alter table jobs add column version bigint not null default 0',
      'create index jobs_by_version on jobs (owner, version)',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
