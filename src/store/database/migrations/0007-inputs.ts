import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Stores the small zips of jobs that have not been submitted to their engine. */
export const inputs = ({ bytesColumn }: Pick<Dialect, 'bytesColumn'>) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    const table = `create table inputs (job bigint primary key references jobs (id), content ${bytesColumn} not null)`;
    await sql.raw(table).execute(db);
  },
});
