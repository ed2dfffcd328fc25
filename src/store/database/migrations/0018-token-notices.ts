import { type Kysely, sql } from 'kysely';

/** Stores when the owner of a token was notified of its coming end, so that this happens once. */
export const tokenNotices = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      'alter table tokens add column announced_at bigint',
      'create index tokens_to_announce on tokens (expires_at) where announced_at is null and revoked_at is null',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
