import { type Kysely, sql } from 'kysely';

/**
 * The groups at an OpenID provider decide about roles and memberships: what they said last is stored with the identity, and
 * with a membership who made it, so that those of administrators stay. A membership without a reason was made by `autoJoin`.
 */
export const identities = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      'alter table identities add column role text',
      `alter table identities add column groups_hash text not null default ''`,
      'alter table identities add column claims_at bigint not null default 0',
      'alter table identities add column created_at bigint',
      'create index identities_by_user on identities (user_id)',
      `alter table memberships add column joined_by text not null default 'auto_join'`,
      `update memberships set joined_by = 'administrator' where reason <> ''`,
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
