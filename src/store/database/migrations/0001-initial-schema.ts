import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

type SchemaDialect = Pick<Dialect, 'identityColumn' | 'bytesColumn' | 'binaryCollation' | 'appendOnlyTriggers'>;

/** `Tables` describes the columns. */
export function initialSchema(dialect: SchemaDialect) {
  const statements = [
    ...identityTables(dialect),
    ...ledgerTables(dialect),
    ...jobTables(dialect),
    ...eventTables(dialect),
    ...systemTables,
    ...['entries', 'resolutions', 'audit'].flatMap(dialect.appendOnlyTriggers),
  ];
  return {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const statement of statements) await sql.raw(statement).execute(db);
    },
  };
}

const identityTables = ({ identityColumn }: SchemaDialect) => [
  `create table users (
     id text primary key, role text not null, name text, mail text, disabled_at bigint, created_at bigint not null,
     jobs_version bigint not null default 0, event_seq bigint not null default 0,
     events_expired bigint not null default 0, webhooks integer not null default 0,
     unfinished_jobs bigint not null default 0)`,

  `create table identities (
     issuer text not null, subject text not null, user_id text not null references users(id), role text,
     groups_hash text not null default '', claims_at bigint not null default 0, created_at bigint not null,
     primary key (issuer, subject))`,
  'create index identities_by_user on identities (user_id)',

  `create table tokens (
     id ${identityColumn}, user_id text not null references users(id), hash text not null unique, name text not null,
     scopes text not null, hpc text, project_name text, last_used_on text, last_used_from text, created_at bigint not null,
     expires_at bigint, revoked_at bigint, announced_at bigint)`,
  'create index tokens_by_user on tokens (user_id)',
  'create index tokens_to_announce on tokens (expires_at) where announced_at is null and revoked_at is null',

  `create table sessions (
     id ${identityColumn}, user_id text not null references users(id), hash text not null unique,
     created_at bigint not null, last_used_at bigint not null, expires_at bigint not null, address text not null,
     user_agent text not null, issuer text, id_token text, revoked_at bigint)`,
  'create index sessions_by_user on sessions (user_id)',
  'create index sessions_by_expiry on sessions (expires_at)',

  `create table sign_in_codes (
     hash text not null primary key, user_id text not null references users(id), created_at bigint not null,
     expires_at bigint not null)`,
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

  `create table projects (
     id ${identityColumn}, hpc text not null, name text not null, auto_join integer not null,
     grant_time_seconds bigint not null, grant_space_bytes bigint not null, created_at bigint not null,
     closed_at bigint, unique (hpc, name))`,

  `create table memberships (
     id ${identityColumn}, user_id text not null references users(id),
     project_id bigint not null references projects(id), status text not null, role text not null default 'member',
     joined_by text not null default 'auto_join', reason text not null, since bigint not null,
     unique (user_id, project_id))`,

  `create table audit (
     id ${identityColumn}, actor text not null, address text, token_id bigint, session_id bigint, request_id text,
     action text not null, subject text not null, details text not null, at bigint not null,
     hash text not null)`,
  'create index audit_by_actor on audit (actor, at, id)',
  'create index audit_by_action on audit (action, id)',
  'create index audit_by_time on audit (at, id)',
];

const ledgerTables = ({ identityColumn }: SchemaDialect) => [
  `create table periods (
     id ${identityColumn}, project_id bigint not null references projects(id), starts_at bigint not null,
     ends_at bigint, announced_at bigint)`,
  'create index periods_by_project on periods (project_id, starts_at)',

  `create table accounts (
     id ${identityColumn}, project_id bigint not null references projects(id), period_id bigint not null,
     holder text not null, resource text not null, granted bigint not null, held bigint not null,
     posted bigint not null, overrun bigint not null, alerted integer not null, version bigint not null default 1,
     open_holds bigint not null default 0, unique (project_id, holder, resource, period_id),
     check (held >= 0 and posted >= 0 and overrun >= 0))`,

  `create table monthly_usage (
     month text not null, project_id bigint not null references projects(id),
     user_id text not null references users(id), jobs bigint not null, time_seconds bigint not null,
     primary key (month, project_id, user_id))`,
  'create index monthly_usage_by_user on monthly_usage (user_id)',
  'create index monthly_usage_by_project on monthly_usage (project_id, month, user_id)',
];

const isUnfinished = "state in ('accepted', 'submitting', 'queued', 'running')";

const jobTables = ({ identityColumn, bytesColumn, binaryCollation }: SchemaDialect) => [
  `create table jobs (
     id ${identityColumn}, job_id text not null unique, owner text not null references users(id),
     project_id bigint not null references projects(id), hpc text not null, project_name text not null,
     request text not null, units bigint not null, input_sha256 text, input_bytes bigint not null,
     unpacked_bytes bigint not null, state text not null, outcome text, reason text, exit_code integer,
     started_at bigint, ended_at bigint, elapsed_seconds bigint, engine_ref text,
     accepted_at bigint not null, due_at bigint not null, tries integer not null, claimed_at bigint,
     trace_parent text, delayed_at bigint, delay_reason text, cancel_requested_at bigint, cancel_requested_by text,
     expires_at bigint, public_json text not null, title text not null, stage text not null,
     failed integer not null, terminal integer not null)`,

  // In the order in which the dispatcher takes the jobs of each user.
  `create index jobs_unfinished on jobs (hpc, state, owner, due_at, id) where ${isUnfinished}`,
  `create index jobs_to_cancel on jobs (hpc) where cancel_requested_at is not null and state in
     ('submitting', 'queued', 'running')`,
  'create index jobs_delayed on jobs (hpc) where delayed_at is not null',
  "create index jobs_to_announce on jobs (project_id, ended_at) where state = 'ended' and expires_at is null",
  "create index jobs_expiring on jobs (project_id, expires_at) where state = 'ended' and expires_at is not null",

  // For filtered lists. Each is in the order of the list, by id.
  // With the public JSON, so that a page of a user's jobs, which lie between those of all others, is read from the index alone.
  'create index jobs_by_owner on jobs (owner, id, public_json)',
  'create index jobs_by_project on jobs (owner, hpc, project_name, id)',
  'create index jobs_by_owner_system on jobs (owner, hpc, id)',
  'create index jobs_by_system on jobs (hpc, id)',
  'create index jobs_of_project on jobs (hpc, project_name, id)',
  'create index jobs_by_acceptance on jobs (accepted_at, id)',
  'create index jobs_by_owner_stage on jobs (owner, stage, id)',
  'create index jobs_by_stage on jobs (stage, id)',
  'create index jobs_by_title on jobs (title, owner, id)',
  'create index jobs_failed on jobs (id) where failed = 1',
  'create index jobs_failed_by_owner on jobs (owner, id) where failed = 1',
  'create index jobs_open on jobs (id) where terminal = 0',
  'create index jobs_open_by_owner on jobs (owner, id) where terminal = 0',
  `create index jobs_by_job_id on jobs (job_id collate ${binaryCollation}, id)`,

  `create table job_tags (
     tag text not null, job bigint not null references jobs(id), owner text not null references users(id),
     primary key (tag, job))`,
  'create index job_tags_by_owner on job_tags (owner, tag, job)',

  `create table inputs (job bigint primary key references jobs(id), content ${bytesColumn} not null)`,

  `create table idempotency (
     user_id text not null, key text not null, request_hash text not null, response text not null,
     at bigint not null, claimed_by text, claimed_until bigint not null default 0, body_sha256 text,
     primary key (user_id, key))`,
  'create index idempotency_by_age on idempotency (at)',

  `create table holds (
     id ${identityColumn}, job bigint not null unique references jobs(id),
     time_pool bigint not null references accounts(id), time_cap bigint not null references accounts(id),
     space_pool bigint not null references accounts(id), space_cap bigint not null references accounts(id),
     time_seconds bigint not null, space_bytes bigint not null, created_at bigint not null)`,

  `create table resolutions (
     hold_id bigint primary key references holds(id), kind text not null, time_seconds bigint not null,
     space_bytes bigint not null, rule text not null, at bigint not null)`,

  `create table entries (
     id ${identityColumn}, account_id bigint not null references accounts(id), kind text not null,
     granted bigint not null, held bigint not null, posted bigint not null, overrun bigint not null,
     available_after bigint not null, job bigint references jobs(id), actor text not null, reason text not null,
     at bigint not null)`,
  'create index entries_by_account on entries (account_id, id)',
  'create index entries_by_job on entries (job, account_id) where job is not null',
];

const eventTables = ({ identityColumn }: SchemaDialect) => [
  `create table events (
     id ${identityColumn}, user_id text not null references users(id), seq bigint not null,
     job bigint references jobs(id), kind text not null, data text not null, at bigint not null, job_json text,
     expired integer not null)`,
  'create unique index events_by_user on events (user_id, seq)',
  'create index events_by_job on events (job, id)',
  'create index events_by_age on events (at) where expired = 0',

  `create table webhooks (
     id ${identityColumn}, user_id text not null references users(id), url text not null, description text not null,
     generation integer not null, former_until bigint not null, key_id text not null, created_at bigint not null,
     failures integer not null, failing_since bigint, pause_until bigint not null, disabled_at bigint,
     disabled_reason text, disabled_by text, unique (user_id, url))`,

  `create table subscriptions (
     webhook_id bigint not null references webhooks(id), kind text not null, primary key (webhook_id, kind))`,

  `create table deliveries (
     id ${identityColumn}, webhook_id bigint not null references webhooks(id), event_id bigint references events(id),
     state text not null, created_at bigint not null, due_at bigint not null, tries integer not null,
     lease_owner text, lease_until bigint not null, last_at bigint, last_result text, last_error text)`,
  'create index deliveries_by_webhook on deliveries (webhook_id, id)',
  'create index deliveries_by_event on deliveries (event_id)',
  ...['id', 'due_at', 'lease_until'].map(
    (column) =>
      `create index deliveries_pending_by_${column} on deliveries (webhook_id, ${column}) where state = 'pending'`,
  ),
];

const systemTables = [
  `create table systems (
     hpc text primary key, status text not null, since bigint not null, detail text not null, paused_at bigint,
     pause_reason text)`,
  'create table leases (name text primary key, holder text not null, term bigint not null, expires_at bigint not null)',
  'create table settings (name text primary key, value text not null)',
];
