import type { Static } from 'typebox';
import { type DeliverySchema, publicDelivery } from '../../contract/webhook.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import * as store from '../../store/events/deliveries.ts';
import { lockUserOfWebhooks } from '../../store/events/webhooks.ts';
import { type IdempotentRequest, runOnce } from '../idempotency.ts';
import { disabledMessage, requireWebhook, type WebhookDeps } from './webhooks.ts';

type Delivery = Static<typeof DeliverySchema>;

export async function listDeliveries(
  { db }: Pick<WebhookDeps, 'db'>,
  userId: string,
  webhookId: number,
  limit: number,
  before: number | undefined,
): Promise<Delivery[]> {
  await requireWebhook(db, userId, webhookId);
  return (await store.listDeliveries(db, webhookId, limit, before)).map(publicDelivery);
}

export async function readDelivery(
  { db }: Pick<WebhookDeps, 'db'>,
  userId: string,
  webhookId: number,
  id: number,
): Promise<Delivery> {
  await requireWebhook(db, userId, webhookId);
  return await requireDelivery(db, webhookId, id);
}

export async function testWebhook(
  deps: WebhookDeps,
  userId: string,
  webhookId: number,
  request: IdempotentRequest | null,
): Promise<Delivery> {
  return await queueDelivery(deps, userId, webhookId, request, (tx) =>
    store.insertTestDelivery(tx, webhookId, deps.now()),
  );
}

export async function resendDelivery(
  deps: WebhookDeps,
  userId: string,
  webhookId: number,
  id: number,
  request: IdempotentRequest | null,
): Promise<Delivery> {
  return await queueDelivery(deps, userId, webhookId, request, async (tx) => {
    await requireDelivery(tx, webhookId, id);
    await store.requeueDelivery(tx, id, deps.now());
    return id;
  });
}

async function queueDelivery(
  { db, now, userTopic }: WebhookDeps,
  userId: string,
  webhookId: number,
  request: IdempotentRequest | null,
  queue: (tx: Tx) => Promise<number>,
): Promise<Delivery> {
  const delivery = await runOnce(db, request, now(), async (tx) => {
    await lockUserOfWebhooks(tx, userId);
    const webhook = await requireWebhook(tx, userId, webhookId);
    const { disabledAt, disabledReason, disabledBy } = webhook;
    if (disabledBy === 'administrator') throw new BursarError('forbidden', disabledMessage(webhook));
    if (disabledAt !== null) {
      const message = `The webhook is disabled: ${disabledReason ?? ''} Enable it first, by PATCH with {"active": true}.`;
      throw new BursarError('conflict', message);
    }
    return await requireDelivery(tx, webhookId, await queue(tx));
  });
  userTopic.publish(userId);
  return delivery;
}

async function requireDelivery(db: Db, webhookId: number, id: number): Promise<Delivery> {
  const delivery = await store.findDelivery(db, webhookId, id);
  if (delivery !== undefined) return publicDelivery(delivery);
  const message = `There is no delivery with this id. GET /webhooks/${webhookId}/deliveries/ lists them.`;
  throw new BursarError('webhook_unknown', message);
}
