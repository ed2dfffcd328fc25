import type { Db } from '../database/handle.ts';
import type { Tables } from '../database/tables.ts';

/** An address that a user wants events to be sent to. */
export interface WebhookRecord {
  id: number;
  userId: string;
  url: string;
  description: string;
  /** The kinds of events that it wants; `*` for all. */
  kinds: string[];
  createdAt: number;
  failingSince: number | null;
  disabledAt: number | null;
  disabledReason: string | null;
}

export interface NewWebhook {
  userId: string;
  url: string;
  description: string;
  kinds: readonly string[];
  secret: string;
  createdAt: number;
}

/**
 * Counts one more webhook of a user, if that is not too many; false and no change otherwise. The count spares events of
 * users without any the search for them.
 */
export async function incrementWebhookCount(db: Db, userId: string, most: number): Promise<boolean> {
  const row = await db
    .updateTable('users')
    .set((eb) => ({ webhooks: eb('webhooks', '+', 1) }))
    .where('id', '=', userId)
    .where('webhooks', '<', most)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Undefined when the user has one of that address already. The caller has counted it. */
export async function insertWebhook(db: Db, webhook: NewWebhook): Promise<number | undefined> {
  const row = await db
    .insertInto('webhooks')
    .values({
      user_id: webhook.userId,
      url: webhook.url,
      description: webhook.description,
      secret: webhook.secret,
      former_secret: null,
      former_until: 0,
      created_at: webhook.createdAt,
      failures: 0,
      failing_since: null,
      pause_until: 0,
      disabled_at: null,
      disabled_reason: null,
    })
    .onConflict((conflict) => conflict.columns(['user_id', 'url']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row !== undefined) await insertSubscriptions(db, row.id, webhook.kinds);
  return row?.id;
}

async function insertSubscriptions(db: Db, id: number, kinds: readonly string[]): Promise<void> {
  const rows = [...new Set(kinds)].map((kind) => ({ webhook_id: id, kind }));
  await db.insertInto('subscriptions').values(rows).execute();
}

/** Those of a user, or (without one) everybody's. */
export async function listWebhooks(db: Db, userId?: string): Promise<WebhookRecord[]> {
  const query = db.selectFrom('webhooks').selectAll().orderBy('id');
  const rows = await (userId === undefined ? query : query.where('user_id', '=', userId)).execute();
  return await withKinds(db, rows, userId);
}

export async function findWebhook(db: Db, userId: string, id: number): Promise<WebhookRecord | undefined> {
  const rows = await db.selectFrom('webhooks').selectAll().where('id', '=', id).where('user_id', '=', userId).execute();
  return (await withKinds(db, rows, userId))[0];
}

type WebhookRow = Omit<Tables['webhooks'], 'id'> & { id: number };

async function withKinds(db: Db, rows: WebhookRow[], userId?: string): Promise<WebhookRecord[]> {
  const wanted = db
    .selectFrom('subscriptions')
    .innerJoin('webhooks', 'webhooks.id', 'subscriptions.webhook_id')
    .select(['subscriptions.webhook_id', 'subscriptions.kind'])
    .orderBy('subscriptions.kind');
  const ofThem = userId === undefined ? wanted : wanted.where('webhooks.user_id', '=', userId);
  const kinds = Map.groupBy(await ofThem.execute(), (row) => row.webhook_id);
  return rows.map((row) => ({
    id: row.id,
    userId: row.user_id,
    url: row.url,
    description: row.description,
    kinds: (kinds.get(row.id) ?? []).map(({ kind }) => kind),
    createdAt: row.created_at,
    failingSince: row.failing_since,
    disabledAt: row.disabled_at,
    disabledReason: row.disabled_reason,
  }));
}

export interface WebhookChange {
  url?: string;
  description?: string;
  kinds?: readonly string[];
}

/** The caller has looked that the user has no other one of that address. */
export async function updateWebhook(db: Db, id: number, { url, description, kinds }: WebhookChange): Promise<void> {
  const set = { ...(url === undefined ? {} : { url }), ...(description === undefined ? {} : { description }) };
  if (Object.keys(set).length > 0) await db.updateTable('webhooks').set(set).where('id', '=', id).execute();
  if (kinds === undefined) return;
  await db.deleteFrom('subscriptions').where('webhook_id', '=', id).execute();
  await insertSubscriptions(db, id, kinds);
}

/** With all that belongs to it. What is on its way arrives, and nobody notes it. */
export async function deleteWebhook(db: Db, { id, userId }: Pick<WebhookRecord, 'id' | 'userId'>): Promise<void> {
  await db
    .updateTable('users')
    .set((eb) => ({ webhooks: eb('webhooks', '-', 1) }))
    .where('id', '=', userId)
    .execute();
  await db.deleteFrom('deliveries').where('webhook_id', '=', id).execute();
  await db.deleteFrom('subscriptions').where('webhook_id', '=', id).execute();
  await db.deleteFrom('webhooks').where('id', '=', id).execute();
}

/** Replaces the secret; the one before it signs too, until a moment. */
export async function replaceSecret(db: Db, id: number, secret: string, formerUntil: number): Promise<void> {
  await db
    .updateTable('webhooks')
    .set((eb) => ({ secret, former_secret: eb.ref('secret'), former_until: formerUntil }))
    .where('id', '=', id)
    .execute();
}

/** Lets events go there again, with a clean record. */
export async function enableWebhook(db: Db, id: number): Promise<void> {
  await db
    .updateTable('webhooks')
    .set({ failures: 0, failing_since: null, pause_until: 0, disabled_at: null, disabled_reason: null })
    .where('id', '=', id)
    .execute();
}

/** Sends nothing there any more, and gives up what was waiting. False when it is disabled already. */
export async function disableWebhook(db: Db, id: number, reason: string, now: number): Promise<boolean> {
  const row = await db
    .updateTable('webhooks')
    .set({ disabled_at: now, disabled_reason: reason })
    .where('id', '=', id)
    .where('disabled_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  if (row === undefined) return false;
  await db
    .updateTable('deliveries')
    .set((eb) => ({
      state: 'failed',
      lease_owner: null,
      lease_until: 0,
      last_error: eb.fn.coalesce('last_error', eb.val('The webhook was disabled.')),
    }))
    .where('webhook_id', '=', id)
    .where('state', '=', 'pending')
    .execute();
  return true;
}
