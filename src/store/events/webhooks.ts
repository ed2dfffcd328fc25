import { sql } from 'kysely';
import type { WebhookDisabler } from '../../domain/webhook.ts';
import type { Db, Tx } from '../database/handle.ts';
import type { Row } from '../database/tables.ts';

export type WebhookRecord = Awaited<ReturnType<typeof listWebhooks>>[number];

/** The secrets of a webhook are derived from these and the key of the installation. */
export type SecretState = Pick<Row<'webhooks'>, 'generation' | 'formerUntil' | 'keyId'>;

/** The generations whose secrets sign requests, from new to old. */
export function validGenerations({ generation, formerUntil }: SecretState, now: number): number[] {
  return formerUntil > now ? [generation, generation - 1] : [generation];
}

export type NewWebhook = Pick<WebhookRecord, 'userId' | 'url' | 'description' | 'createdAt'> & {
  kinds: readonly string[];
  keyId: string;
};

/**
 * Increments a user's number of webhooks. Returns false, without a change, if it is already `maxCount`. Events of users
 * without webhooks skip the search for subscriptions.
 */
export async function incrementWebhookCount(tx: Tx, userId: string, maxCount: number): Promise<boolean> {
  const row = await tx
    .updateTable('users')
    .set((eb) => ({ webhooks: eb('webhooks', '+', 1) }))
    .where('id', '=', userId)
    .where('webhooks', '<', maxCount)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/** Returns undefined if the user has a webhook with this URL. The caller has called `incrementWebhookCount`. */
export async function insertWebhook(tx: Tx, { kinds, ...webhook }: NewWebhook): Promise<number | undefined> {
  const row = await tx
    .insertInto('webhooks')
    .values({ ...webhook, generation: 1, formerUntil: 0, failures: 0, pauseUntil: 0 })
    .onConflict((conflict) => conflict.columns(['userId', 'url']).doNothing())
    .returning('id')
    .executeTakeFirst();
  if (row !== undefined) await insertSubscriptions(tx, row.id, kinds);
  return row?.id;
}

async function insertSubscriptions(tx: Tx, id: number, kinds: readonly string[]): Promise<void> {
  const rows = [...new Set(kinds)].map((kind) => ({ webhookId: id, kind }));
  await tx.insertInto('subscriptions').values(rows).execute();
}

/** Lists the webhooks of a user, or of all users if none is given. */
export async function listWebhooks(db: Db, userId?: string) {
  const query = selectWebhooks(db).orderBy('id');
  const rows = await (userId === undefined ? query : query.where('userId', '=', userId)).execute();
  return rows.map(toRecord);
}

export async function findWebhook(db: Db, userId: string, id: number): Promise<WebhookRecord | undefined> {
  const row = await selectWebhooks(db).where('id', '=', id).where('userId', '=', userId).executeTakeFirst();
  return row && toRecord(row);
}

function selectWebhooks(db: Db) {
  const kinds = sql<string>`(select string_agg(kind, ' ' order by kind) from subscriptions where webhook_id = webhooks.id)`;
  return db.selectFrom('webhooks').selectAll().select(kinds.as('kinds'));
}

function toRecord({ kinds, ...row }: Row<'webhooks'> & { kinds: string | null }) {
  return { ...row, kinds: kinds?.split(' ') ?? [] };
}

type WebhookChange = { [Field in 'url' | 'description' | 'kinds']: NewWebhook[Field] | undefined };

/** Changes the given fields. The caller has checked that the user has no other webhook with this URL. */
export async function updateWebhook(tx: Tx, id: number, { kinds, ...change }: WebhookChange): Promise<void> {
  const isChanged = Object.values(change).some((value) => value !== undefined);
  if (isChanged) await tx.updateTable('webhooks').set(change).where('id', '=', id).execute();
  if (kinds === undefined) return;
  await tx.deleteFrom('subscriptions').where('webhookId', '=', id).execute();
  await insertSubscriptions(tx, id, kinds);
}

/**
 * Deletes a webhook and its deliveries. A request that is being sent still arrives, but its result is not recorded. Returns
 * who had disabled the webhook, or undefined if it does not exist: then the caller must roll back. Locks the user, the
 * deliveries and the webhook in this order, like the transaction of an event.
 */
export async function deleteWebhook(
  tx: Tx,
  { id, userId }: Pick<WebhookRecord, 'id' | 'userId'>,
): Promise<Pick<WebhookRecord, 'disabledBy' | 'disabledReason'> | undefined> {
  await tx
    .updateTable('users')
    .set((eb) => ({ webhooks: eb('webhooks', '-', 1) }))
    .where('id', '=', userId)
    .execute();
  await tx.deleteFrom('deliveries').where('webhookId', '=', id).execute();
  await tx.deleteFrom('subscriptions').where('webhookId', '=', id).execute();
  return await tx
    .deleteFrom('webhooks')
    .where('id', '=', id)
    .returning(['disabledBy', 'disabledReason'])
    .executeTakeFirst();
}

/** Replaces the secret. The former one also signs requests until `formerUntil`. Returns the new generation. */
export async function incrementGeneration(
  tx: Tx,
  id: number,
  { keyId, formerUntil }: Omit<SecretState, 'generation'>,
): Promise<number> {
  const { generation } = await tx
    .updateTable('webhooks')
    .set((eb) => ({ generation: eb('generation', '+', 1), formerUntil, keyId }))
    .where('id', '=', id)
    .returning('generation')
    .executeTakeFirstOrThrow();
  return generation;
}

/** Enables a webhook and resets its failures. */
export async function enableWebhook(tx: Tx, id: number): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failures: 0, failingSince: null, pauseUntil: 0, disabledAt: null, disabledReason: null, disabledBy: null })
    .where('id', '=', id)
    .execute();
}

/**
 * Locks the user until the transaction ends: no webhook of the user is deleted or disabled meanwhile, and no event adds a
 * delivery. Transactions that change deliveries and their webhook lock the user, the deliveries and the webhook in this
 * order. Otherwise they could wait for each other.
 */
export async function lockUserOfWebhooks(tx: Tx, userId: string): Promise<void> {
  await tx.selectFrom('users').select('id').where('id', '=', userId).forNoKeyUpdate().execute();
}

/** Locks a webhook until the transaction ends, and returns who has disabled it. */
export async function lockDisabledBy(tx: Tx, id: number): Promise<WebhookDisabler | null> {
  const webhook = tx.selectFrom('webhooks').select('disabledBy').where('id', '=', id);
  const row = await webhook.forNoKeyUpdate().executeTakeFirst();
  return row?.disabledBy ?? null;
}

/**
 * Disables a webhook, and fails its pending deliveries. Returns false if it is disabled already; but an administrator can
 * also disable a webhook that Bursar has disabled. The caller has called `lockUserOfWebhooks`.
 */
export async function disableWebhook(
  tx: Tx,
  id: number,
  { by, reason, now }: { by: WebhookDisabler; reason: string; now: number },
): Promise<boolean> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({
      state: 'failed',
      leaseOwner: null,
      leaseUntil: 0,
      lastError: eb.fn.coalesce('lastError', eb.val('The webhook was disabled.')),
    }))
    .where('webhookId', '=', id)
    // A literal: the indexes of pending deliveries are not used with a parameter.
    .where('state', '=', sql.lit('pending'))
    .execute();
  const row = await tx
    .updateTable('webhooks')
    .set({ disabledAt: now, disabledReason: reason, disabledBy: by })
    .where('id', '=', id)
    .where((eb) =>
      eb.or([eb('disabledAt', 'is', null), ...(by === 'administrator' ? [eb('disabledBy', '<>', by)] : [])]),
    )
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
