import { createHash } from 'node:crypto';
import { type Kysely, sql } from 'kysely';

/**
 * The stored responses to requests with an idempotency key had the secrets of webhooks. They have hashes now, by which a
 * repeated request finds the secret. The secrets in the table of webhooks are encrypted at the start: migrations have no key.
 */
export const responseSecrets = {
  async up(db: Kysely<unknown>): Promise<void> {
    const { rows } = await sql<{ user_id: string; key: string; response: string }>`
      select user_id, key, response from idempotency where response like '%"secret":"whsec_%'`.execute(db);
    for (const { user_id, key, response } of rows) {
      const { secret, ...webhook } = JSON.parse(response) as { secret: string };
      const hash = createHash('sha256').update(secret).digest('hex');
      const replaced = JSON.stringify({ ...webhook, secret_hash: hash });
      await sql`update idempotency set response = ${replaced} where user_id = ${user_id} and key = ${key}`.execute(db);
    }
  },
};
