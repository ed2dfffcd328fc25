import { sql } from 'kysely';
import type { Db } from '../../../src/store/database/handle.ts';

/** Statements that undo the migrations, from the last one on. */
const undo: readonly [migration: string, statements: readonly string[]][] = [
  [
    '0021',
    [
      ...['jobs_by_job_id', 'monthly_usage_by_project', 'audit_by_actor'].map((index) => `drop index ${index}`),
      'create index audit_by_actor on audit (actor, id)',
    ],
  ],
  ['0019', ['trace_parent', 'claimed_at'].map((column) => `alter table jobs drop column ${column}`)],
  ['0018', ['drop index tokens_to_announce', 'alter table tokens drop column announced_at']],
  ['0017', ['sessions', 'sign_in_codes', 'sign_in_attempts', 'device_requests'].map((table) => `drop table ${table}`)],
  [
    '0016',
    [
      'drop index identities_by_user',
      ...['role', 'groups_hash', 'claims_at', 'created_at'].map(
        (column) => `alter table identities drop column ${column}`,
      ),
      'alter table memberships drop column joined_by',
    ],
  ],
  [
    '0015',
    [
      ...['audit_by_actor', 'audit_by_act', 'audit_by_time'].map((index) => `drop index ${index}`),
      ...['address', 'token_id', 'session_id', 'request_id', 'hash'].map(
        (column) => `alter table audit drop column ${column}`,
      ),
      "delete from facts where name = 'audit_hash'",
    ],
  ],
  [
    '0014',
    [
      'alter table memberships drop column role',
      'drop index tokens_by_user',
      ...['scopes', 'hpc', 'project_name', 'last_used_on', 'last_used_from'].map(
        (column) => `alter table tokens drop column ${column}`,
      ),
      ...['name', 'mail', 'disabled_at'].map((column) => `alter table users drop column ${column}`),
      'alter table tokens add column admin integer not null default 0',
      "update users set role = 'admin' where role = 'administrator'",
    ],
  ],
  ['0013', ['drop table monthly_usage']],
  [
    '0012',
    [
      'alter table webhooks drop column disabled_by',
      'alter table deliveries drop column last_result',
      'alter table deliveries add column last_status integer',
    ],
  ],
  [
    '0011',
    [
      'drop index jobs_unfinished',
      'create index jobs_unfinished on jobs (hpc, state, due_at)',
      'alter table users drop column unfinished_jobs',
      'alter table accounts drop column open_holds',
    ],
  ],
  ['0010', ['drop table job_tags']],
  [
    '0009',
    ['drop index jobs_delayed', 'alter table jobs drop column delayed_at', 'alter table jobs drop column delay_reason'],
  ],
  ['0008', ['alter table jobs drop column cancel_requested_by']],
  ['0007', ['drop table inputs']],
  ['0006', ['drop index jobs_by_version', 'alter table jobs drop column version']],
];

/** Turns a database into one from before a migration, such as `0011`. */
export async function undoMigrations(db: Db, first: string): Promise<void> {
  const statements = undo.filter(([migration]) => migration >= first).flatMap(([, texts]) => texts);
  for (const statement of statements) await sql.raw(statement).execute(db);
  await sql`delete from kysely_migration where name >= ${first}`.execute(db);
}
