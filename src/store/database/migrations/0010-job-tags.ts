import { type Kysely, sql } from 'kysely';

/** Stores the tags of jobs for filtered lists. Both indexes are in the order of the lists, by job. */
export const jobTags = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      `create table job_tags (
        tag text not null,
        job bigint not null references jobs (id),
        owner text not null references users (id),
        primary key (tag, job))`,
      'create index job_tags_by_owner on job_tags (owner, tag, job)',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
