import { type Kysely, sql } from 'kysely';

/** Replaces the lease of each job by one of each system, with a fencing token (`term`), and adds `facts`. */
export const leases = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      `create table leases (
         name text primary key, holder text not null, term bigint not null, expires_at bigint not null)`,
      'create table facts (name text primary key, value text not null)',
      'alter table jobs drop column lease_owner',
      'alter table jobs drop column lease_until',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
