import { type Kysely, sql } from 'kysely';

/**
 * Stores the trace of a job's submission, so that it goes on after a restart, and since when a dispatcher has been submitting a
 * job, so that a submission that hangs is found.
 */
export const tracesAndClaims = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      'alter table jobs add column trace_parent text',
      'alter table jobs add column claimed_at bigint',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
