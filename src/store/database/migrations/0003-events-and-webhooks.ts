import { type Kysely, sql } from 'kysely';
import type { Dialect } from '../dialect.ts';

/**
 * Numbers the events of each user, without gaps and in commit order, and adds webhooks. Older events have no public form:
 * they are marked as expired and stay for the timelines of their jobs.
 */
export function eventsAndWebhooks(dialect: Dialect) {
  const statements = [
    'alter table users add column event_seq bigint not null default 0',
    'alter table users add column events_forgotten bigint not null default 0',
    'alter table users add column webhooks integer not null default 0',
    'alter table events add column seq bigint not null default 0',
    'alter table events add column job_json text',
    'alter table events add column forgotten integer not null default 0',
    `update events set forgotten = 1, seq = numbered.seq from
       (select id, row_number() over (partition by user_id order by id) as seq from events) as numbered
       where numbered.id = events.id`,
    `update users set event_seq = counted.events, events_forgotten = counted.events from
       (select user_id, count(*) as events from events group by user_id) as counted
       where counted.user_id = users.id`,
    'drop index events_by_user',
    'create unique index events_by_user on events (user_id, seq)',
    'create index events_by_age on events (at) where forgotten = 0',

    `create table webhooks (
       id ${dialect.identityColumn}, user_id text not null references users(id), url text not null,
       description text not null, secret text not null, former_secret text, former_until bigint not null,
       created_at bigint not null, failures integer not null, failing_since bigint, pause_until bigint not null,
       disabled_at bigint, disabled_reason text, unique (user_id, url))`,

    `create table subscriptions (
       webhook_id bigint not null references webhooks(id), kind text not null, primary key (webhook_id, kind))`,

    `create table deliveries (
       id ${dialect.identityColumn}, webhook_id bigint not null references webhooks(id),
       event_id bigint references events(id), state text not null, created_at bigint not null, due_at bigint not null,
       tries integer not null, lease_owner text, lease_until bigint not null, last_at bigint, last_status integer,
       last_error text)`,
    'create index deliveries_by_webhook on deliveries (webhook_id, id)',
    ...['id', 'due_at', 'lease_until'].map(
      (column) =>
        `create index deliveries_pending_by_${column} on deliveries (webhook_id, ${column}) where state = 'pending'`,
    ),
    'create index deliveries_by_event on deliveries (event_id)',
  ];
  return {
    async up(db: Kysely<unknown>): Promise<void> {
      for (const statement of statements) await sql.raw(statement).execute(db);
    },
  };
}
