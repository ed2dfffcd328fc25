import { type Kysely, sql } from 'kysely';

/** One lease for each system, with a number that tells its holders apart, instead of one for each job; and facts. */
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
