import { type Kysely, sql } from 'kysely';

/** How the HPC systems do, for every reader on every instance, and whether an administrator has paused them. */
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
