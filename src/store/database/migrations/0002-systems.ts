import { type Kysely, sql } from 'kysely';

/** Stores the health of each HPC system, for all instances, and whether an administrator has paused it. */
export const systems = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql
      .raw(
        `create table systems (
           hpc text primary key, status text not null, since bigint not null, detail text not null,
           paused_at bigint, pause_reason text)`,
      )
      .execute(db);
  },
};
