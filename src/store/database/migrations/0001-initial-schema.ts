import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/** Creates users and tokens, projects and members, the ledger, jobs and events. */
export function initialSchema(dialect: Dialect) {
  const id = (name: string) => `${name} ${dialect.identityColumn}`;
  const statements = [
    `create table users (
       id text primary key, role text not null, created_at bigint not null)`,

    `create table identities (
       issuer text not null, subject text not null, user_id text not null references users(id),
       primary key (issuer, subject))`,

    `create table tokens (
       ${id('id')}, user_id text not null references users(id), hash text not null unique, name text not null,
       admin integer not null, created_at bigint not null, expires_at bigint, revoked_at bigint)`,

    `create table projects (
       ${id('id')}, hpc text not null, name text not null, auto_join integer not null,
       grant_time_seconds bigint not null, grant_space_bytes bigint not null, created_at bigint not null,
       closed_at bigint, unique (hpc, name))`,

    `create table periods (
       ${id('id')}, project_id bigint not null references projects(id), starts_at bigint not null, ends_at bigint,
       announced_at bigint)`,
    'create index periods_by_project on periods (project_id, starts_at)',

    `create table memberships (
       ${id('id')}, user_id text not null references users(id), project_id bigint not null references projects(id),
       status text not null, reason text not null, since bigint not null, unique (user_id, project_id))`,

    `create table accounts (
       ${id('id')}, project_id bigint not null references projects(id), period_id bigint not null,
       holder text not null, resource text not null, granted bigint not null, held bigint not null,
       posted bigint not null, overrun bigint not null, alerted integer not null,
       unique (project_id, holder, resource, period_id), check (held >= 0 and posted >= 0 and overrun >= 0))`,

    `create table jobs (
       ${id('id')}, job_id text not null unique, owner text not null references users(id),
       project_id bigint not null references projects(id), hpc text not null, project_name text not null,
       request text not null, units bigint not null, input_sha256 text, input_bytes bigint not null,
       unpacked_bytes bigint not null, state text not null, outcome text, reason text, exit_code integer,
       started_at bigint, ended_at bigint, elapsed_seconds bigint, engine_ref text, attempt integer not null,
       accepted_at bigint not null, due_at bigint not null, tries integer not null, cancel_requested_at bigint, lease_owner text,
       lease_until bigint not null, public_json text not null)`,
    'create index jobs_by_owner on jobs (owner, id)',
    'create index jobs_by_project on jobs (owner, hpc, project_name, id)',
    `create index jobs_unfinished on jobs (hpc, state, due_at) where state in
       ('accepted', 'submitting', 'queued', 'running')`,

    `create index jobs_to_cancel on jobs (hpc) where cancel_requested_at is not null and state in
       ('submitting', 'queued', 'running')`,

    `create table holds (
       ${id('id')}, job bigint not null references jobs(id), attempt integer not null,
       time_pool bigint not null references accounts(id), time_cap bigint not null references accounts(id),
       space_pool bigint not null references accounts(id), space_cap bigint not null references accounts(id),
       time_seconds bigint not null, space_bytes bigint not null, created_at bigint not null, unique (job, attempt))`,

    `create table resolutions (
       hold_id bigint primary key references holds(id), kind text not null, time_seconds bigint not null,
       space_bytes bigint not null, rule text not null, at bigint not null)`,

    `create table entries (
       ${id('id')}, account_id bigint not null references accounts(id), kind text not null,
       granted bigint not null, held bigint not null, posted bigint not null, overrun bigint not null,
       available_after bigint not null, job bigint references jobs(id), actor text not null, reason text not null,
       at bigint not null)`,
    'create index entries_by_account on entries (account_id, id)',
    'create index entries_by_job on entries (job, account_id) where job is not null',

    `create table audit (
       ${id('id')}, actor text not null, act text not null, subject text not null, details text not null,
       at bigint not null)`,

    `create table idempotency (
       user_id text not null, key text not null, request_hash text not null, response text not null,
       at bigint not null, primary key (user_id, key))`,

    `create table events (
       ${id('id')}, user_id text not null references users(id), job bigint references jobs(id), kind text not null,
       data text not null, at bigint not null)`,
    'create index events_by_user on events (user_id, id)',
    'create index events_by_job on events (job, id)',

    ...dialect.appendOnlyTriggers('entries'),
    ...dialect.appendOnlyTriggers('resolutions'),
    ...dialect.appendOnlyTriggers('audit'),
  ];
  return {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const statement of statements) await sql.raw(statement).execute(db);
    },
  };
}
