import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Sessions of browsers, and the steps on the way to a session or a token: sign-in links, OpenID and device requests. */
export const signIn = ({ identityColumn }: Pick<Dialect, 'identityColumn'>) => ({
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      `create table sessions (
         id ${identityColumn}, user_id text not null references users(id), hash text not null unique,
         created_at bigint not null, last_used_at bigint not null, expires_at bigint not null,
         address text not null, user_agent text not null, issuer text, id_token text, revoked_at bigint)`,
      'create index sessions_by_user on sessions (user_id)',
      'create index sessions_by_expiry on sessions (expires_at)',
      `create table sign_in_codes (
         hash text not null primary key, user_id text not null references users(id),
         created_at bigint not null, expires_at bigint not null)`,
      'create index sign_in_codes_by_expiry on sign_in_codes (expires_at)',
      `create table sign_in_attempts (
         hash text not null primary key, issuer text not null, state text not null, nonce text not null,
         code_verifier text not null, return_to text not null, expires_at bigint not null)`,
      'create index sign_in_attempts_by_expiry on sign_in_attempts (expires_at)',
      `create table device_requests (
         id ${identityColumn}, device_hash text not null unique, user_code_hash text not null unique,
         client_name text not null, scopes text not null, address text not null, created_at bigint not null,
         expires_at bigint not null, interval_seconds bigint not null, last_polled_at bigint not null,
         state text not null, user_id text references users(id))`,
      'create index device_requests_by_expiry on device_requests (expires_at)',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
});
