import { sql } from 'kysely';
import type { DeliveryResult } from '../../domain/webhook.ts';
import type { Db, Tx } from '../database/handle.ts';

/** The pending deliveries of one webhook. */
export interface DeliveryQueue {
  webhookId: number;
  /** When the next delivery may be sent. */
  readyAt: number;
}

/** The condition of partial indexes: with a parameter the databases would read all deliveries of a webhook instead. */
const isPending = sql<boolean>`state = 'pending'`;

/**
 * Lists the webhooks with pending deliveries. Each has its own queue, so that a slow receiver delays no other. It finds one
 * webhook after the other in the index of pending deliveries, so that neither idle webhooks nor long queues cost anything.
 * Webhooks of disabled users are left out.
 */
export async function listDeliveryQueues(db: Db): Promise<DeliveryQueue[]> {
  const { rows } = await sql<{ id: number; pauseUntil: number; dueAt: number; leaseUntil: number }>`
    with recursive waiting (webhook_id) as (
      select min(webhook_id) from deliveries where ${isPending} union all
      select (select min(webhook_id) from deliveries where ${isPending} and webhook_id > waiting.webhook_id)
      from waiting where webhook_id is not null)
    select webhooks.id, pause_until as "pauseUntil",
      (select min(due_at) from deliveries where ${isPending} and webhook_id = webhooks.id) as "dueAt",
      (select max(lease_until) from deliveries where ${isPending} and webhook_id = webhooks.id) as "leaseUntil"
    from waiting join webhooks on webhooks.id = waiting.webhook_id join users on users.id = webhooks.user_id
    where webhooks.disabled_at is null and users.disabled_at is null`.execute(db);
  return rows.map(({ id, pauseUntil, dueAt, leaseUntil }) => ({
    webhookId: id,
    readyAt: Math.max(dueAt, pauseUntil, leaseUntil),
  }));
}

export interface DeliveryLease {
  owner: string;
  now: number;
  until: number;
}

/** A delivery that only the owner of the lease may send, until the lease expires. */
export type LeasedDelivery = NonNullable<Awaited<ReturnType<typeof readLeasedDelivery>>>;

/**
 * Leases the oldest delivery of a webhook that is due. Returns undefined if there is none, or if another delivery of the
 * same webhook is leased: a receiver gets one delivery at a time.
 */
export async function leaseDelivery(
  db: Db,
  webhookId: number,
  lease: DeliveryLease,
): Promise<LeasedDelivery | undefined> {
  const due = sql<number>`(select id from deliveries
    where webhook_id = ${webhookId} and ${isPending} and due_at <= ${lease.now} and not exists (
      select id from deliveries where webhook_id = ${webhookId} and ${isPending} and lease_until > ${lease.now})
    order by id limit 1)`;
  const leased = await db
    .updateTable('deliveries')
    .set((eb) => ({ leaseOwner: lease.owner, leaseUntil: lease.until, tries: eb('tries', '+', 1) }))
    .where('id', '=', due)
    // Repeated, because another instance may have leased the delivery while this statement waited for the row.
    .where('state', '=', 'pending')
    .where('leaseUntil', '<=', lease.now)
    .returning('id')
    .executeTakeFirst();
  return leased && (await readLeasedDelivery(db, leased.id));
}

async function readLeasedDelivery(db: Db, id: number) {
  const row = await db
    .selectFrom('deliveries')
    .innerJoin('webhooks', 'webhooks.id', 'deliveries.webhookId')
    .leftJoin('events', 'events.id', 'deliveries.eventId')
    .leftJoin('jobs', 'jobs.id', 'events.job')
    .select(['deliveries.tries', 'deliveries.createdAt', 'jobs.traceParent'])
    .select(['webhooks.id as webhookId', 'webhooks.userId', 'webhooks.url', 'webhooks.createdAt as webhookCreatedAt'])
    .select(['webhooks.generation', 'webhooks.formerUntil', 'webhooks.keyId'])
    .select(['events.seq', 'events.kind', 'events.jobJson', 'events.data', 'events.at'])
    .where('deliveries.id', '=', id)
    .executeTakeFirst();
  if (row === undefined) return undefined;
  const { seq, kind, jobJson, data, at, generation, formerUntil, keyId, userId, url, ...delivery } = row;
  const { webhookId, webhookCreatedAt, ...attempt } = delivery;
  const webhook = { id: webhookId, userId, url, createdAt: webhookCreatedAt, generation, formerUntil, keyId };
  const isEvent = seq !== null && kind !== null && data !== null && at !== null;
  return {
    id,
    ...attempt,
    webhook,
    /** Null for a test delivery. */
    event: isEvent ? { seq, kind, jobJson, data, at } : null,
  };
}

/** The result of an attempt to send a delivery. */
export interface DeliveryAttempt {
  leaseOwner: string;
  result: DeliveryResult;
  /** Null for success. */
  error: string | null;
  /** Null after success, or if the delivery has failed for good. */
  retryAt: number | null;
  now: number;
}

/** Records an attempt. Returns false, without a change, if the caller no longer holds the lease. */
export async function recordAttempt(tx: Tx, id: number, attempt: DeliveryAttempt): Promise<boolean> {
  const { error, retryAt, now } = attempt;
  const row = await tx
    .updateTable('deliveries')
    .set({
      state: error === null ? 'delivered' : retryAt === null ? 'failed' : 'pending',
      ...(retryAt === null ? {} : { dueAt: retryAt }),
      leaseOwner: null,
      leaseUntil: 0,
      lastAt: now,
      lastResult: attempt.result,
      lastError: error,
    })
    .where('id', '=', id)
    .where('state', '=', 'pending')
    .where('leaseOwner', '=', attempt.leaseOwner)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Ends the lease of a delivery that was not sent, and does not count it as an attempt. Deliveries of its webhook wait until
 * `until`.
 */
export async function postponeDelivery(
  tx: Tx,
  { id, webhook }: LeasedDelivery,
  { leaseOwner, until }: { leaseOwner: string; until: number },
): Promise<void> {
  await tx
    .updateTable('deliveries')
    .set((eb) => ({ leaseOwner: null, leaseUntil: 0, tries: eb('tries', '-', 1) }))
    .where('id', '=', id)
    .where('leaseOwner', '=', leaseOwner)
    .execute();
  await pauseWebhook(tx, webhook.id, until);
}

/** Called after a successful delivery. */
export async function resetWebhookFailures(tx: Tx, webhookId: number): Promise<void> {
  await tx
    .updateTable('webhooks')
    .set({ failures: 0, failingSince: null, pauseUntil: 0 })
    .where('id', '=', webhookId)
    .where('failures', '>', 0)
    .execute();
}

/** Returns the number of consecutive failures, and the time of the first; undefined if the webhook was deleted. */
export async function recordWebhookFailure(
  tx: Tx,
  webhookId: number,
  now: number,
): Promise<{ failures: number; since: number } | undefined> {
  const row = await tx
    .updateTable('webhooks')
    .set((eb) => ({
      failures: eb('failures', '+', 1),
      failingSince: eb.fn.coalesce('failingSince', eb.val(now)),
    }))
    .where('id', '=', webhookId)
    .returning(['failures', 'failingSince'])
    .executeTakeFirst();
  return row && { failures: row.failures, since: row.failingSince ?? now };
}

export async function pauseWebhook(tx: Tx, webhookId: number, until: number): Promise<void> {
  await tx.updateTable('webhooks').set({ pauseUntil: until }).where('id', '=', webhookId).execute();
}
