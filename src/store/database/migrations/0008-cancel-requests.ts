import { type Kysely, sql } from 'kysely';

/** Stores who requested the cancellation of a job: its owner or an administrator. Earlier requests were all by owners. */
export const cancelRequests = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql.raw('alter table jobs add column cancel_requested_by text').execute(db);
  },
};
