import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Adds an index that finds jobs by the beginning of their id. */
export const jobIdPrefixes = ({ binaryCollation }: Dialect) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw(`create index jobs_by_job_id on jobs (job_id collate ${binaryCollation}, id)`).execute(db);
  },
});
