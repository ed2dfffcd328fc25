import { type Kysely, sql } from 'kysely';

/**
 * Stores who disabled a webhook: its owner must not enable one that an administrator has stopped. Replaces the HTTP status
 * of the last attempt by a class that does not show which ports of a host are open.
 */
export const stoppedWebhooks = {
  async up(db: Kysely<unknown>): Promise<void> {
    const statements = [
      'alter table webhooks add column disabled_by text',
      `update webhooks set disabled_by = case when exists (
         select 1 from audit where act = 'webhook.disable' and subject = webhooks.user_id || '/' || webhooks.id
           and at >= webhooks.disabled_at) then 'administrator' else 'bursar' end
       where disabled_at is not null`,
      'alter table deliveries add column last_result text',
      `update deliveries set last_result = case
           when last_status between 200 and 299 then '2xx' when last_status between 300 and 399 then '3xx'
           when last_status between 400 and 499 then '4xx' when last_status between 500 and 599 then '5xx'
           else 'unreachable' end,
         last_error = case when last_error is null then null when last_status is null
           then 'The endpoint could not be reached.' else 'The endpoint did not accept the event.' end
       where last_at is not null`,
      'alter table deliveries drop column last_status',
    ];
    for (const statement of statements) await sql.raw(statement).execute(db);
  },
};
