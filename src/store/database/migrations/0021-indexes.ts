import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Adds indexes that find jobs by the beginning of their id, the usage of a project, and the acts of an actor by time. */
export const indexes = ({ binaryCollation }: Dialect) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw(`create index jobs_by_job_id on jobs (job_id collate ${binaryCollation}, id)`).execute(db);
    await sql`create index monthly_usage_by_project on monthly_usage (project_id, month, user_id)`.execute(db);
    await sql`drop index audit_by_actor`.execute(db);
    await sql`create index audit_by_actor on audit (actor, at, id)`.execute(db);
  },
});
