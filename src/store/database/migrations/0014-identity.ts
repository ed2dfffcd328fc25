import { type Kysely, sql } from 'kysely';

/**
 * Replaces the administrator flag of tokens by scopes, so that a token can do less than its owner. Existing tokens keep
 * what they could do, and their expiry. Members of a project can manage it. Users can be disabled.
 */
export const identity = {
  async up(db: Kysely<unknown>): Promise<void> {
    const userScopes = 'jobs:read jobs:write quotas:read events:read webhooks:write';
    const statements = [
      `update users set role = 'administrator' where role = 'admin'`,
      'alter table users add column name text',
      'alter table users add column mail text',
      'alter table users add column disabled_at bigint',
      `alter table tokens add column scopes text not null default '${userScopes}'`,
      `update tokens set scopes = '${userScopes} admin:read admin:write' where admin = 1`,
      'alter table tokens drop column admin',
      'alter table tokens add column hpc text',
      'alter table tokens add column project_name text',
      'alter table tokens add column last_used_on text',
      'alter table tokens add column last_used_from text',
      'create index tokens_by_user on tokens (user_id)',
      `alter table memberships add column role text not null default 'member'`,
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
