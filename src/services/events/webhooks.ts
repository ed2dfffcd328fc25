import type { Static } from 'typebox';
import {
  type DeliverySchema,
  publicDelivery,
  publicWebhook,
  type WebhookBody,
  type WebhookChangeBody,
  type WebhookSchema,
  type WebhookWithSecretSchema,
} from '../../contract/webhook.ts';
import { BursarError } from '../../domain/errors.ts';
import { msPerDay } from '../../domain/units.ts';
import type { Db, Tx } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { findDelivery, insertTestDelivery, listDeliveries, requeueDelivery } from '../../store/events/deliveries.ts';
import { insertEvent } from '../../store/events/events.ts';
import {
  deleteWebhook,
  disableWebhook,
  enableWebhook,
  findWebhook,
  incrementWebhookCount,
  insertWebhook,
  listWebhooks,
  replaceSecret,
  updateWebhook,
  type WebhookRecord,
} from '../../store/events/webhooks.ts';
import { type EndpointRules, parseEndpointUrl } from '../../webhooks/endpoint-url.ts';
import type { ResolveEndpoint } from '../../webhooks/resolve-endpoint.ts';
import { generateSecret } from '../../webhooks/signature.ts';
import { administer } from '../accounting/admin-actions.ts';
import { type IdempotentRequest, runOnce, storedResponse } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';

export interface WebhookDeps {
  db: Db;
  rules: EndpointRules;
  resolve: ResolveEndpoint;
  maxPerUser: number;
  now(): number;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
}

/** Under its key, where its caller has sent one. */
type Request = IdempotentRequest | null;
type Webhook = Static<typeof WebhookSchema>;
type WebhookWithSecret = Static<typeof WebhookWithSecretSchema>;
type Delivery = Static<typeof DeliverySchema>;

const lookUpMs = 5000;
/** How long the secret from before a rotation signs beside the new one. */
const changeoverMs = msPerDay;

/** What users do with their webhooks. Somebody else's does not exist for them. */
export type WebhookService = ReturnType<typeof createWebhookService>;

export function createWebhookService(deps: WebhookDeps) {
  const { db, now } = deps;

  /** Says no at once to what could never be delivered. It is looked at again before every delivery. */
  async function checkedAddress(text: string): Promise<string> {
    const url = parseEndpointUrl(text, deps.rules);
    await deps.resolve(url, AbortSignal.timeout(lookUpMs));
    return url.href;
  }

  async function reread(userId: string, id: number): Promise<Webhook> {
    return publicWebhook(await owned(db, userId, id));
  }

  return {
    list: async (userId: string | undefined): Promise<Webhook[]> => (await listWebhooks(db, userId)).map(publicWebhook),

    read: reread,

    async create(userId: string, body: Static<typeof WebhookBody>, request: Request): Promise<WebhookWithSecret> {
      const earlier = await storedResponse<WebhookWithSecret>(db, request);
      if (earlier !== undefined) return earlier;
      const url = await checkedAddress(body.url);
      const secret = generateSecret();
      const { events: kinds, description = '' } = body;
      return await runOnce(db, request, now(), async (tx) => {
        if (!(await incrementWebhookCount(tx, userId, deps.maxPerUser))) {
          const message = `You have ${deps.maxPerUser} webhooks, which is the most that one may have. Delete one first.`;
          throw new BursarError('too_many_webhooks', message);
        }
        const id = await insertWebhook(tx, { userId, url, description, kinds, secret, createdAt: now() });
        if (id === undefined) throw taken();
        return { ...publicWebhook(await owned(tx, userId, id)), secret };
      });
    },

    async update(userId: string, id: number, body: Static<typeof WebhookChangeBody>): Promise<Webhook> {
      await owned(db, userId, id);
      const url = body.url === undefined ? undefined : await checkedAddress(body.url);
      await inTransaction(db, async (tx) => {
        const others = (await listWebhooks(tx, userId)).filter((other) => other.id !== id);
        if (others.some((other) => other.url === url)) throw taken();
        await updateWebhook(tx, id, {
          ...(url === undefined ? {} : { url }),
          ...(body.description === undefined ? {} : { description: body.description }),
          ...(body.events === undefined ? {} : { kinds: body.events }),
        });
        if (body.active) await enableWebhook(tx, id);
      });
      return await reread(userId, id);
    },

    async delete(userId: string, id: number): Promise<Webhook> {
      return await inTransaction(db, async (tx) => {
        const webhook = await owned(tx, userId, id);
        await deleteWebhook(tx, webhook);
        return publicWebhook(webhook);
      });
    },

    async rotateSecret(userId: string, id: number, request: Request): Promise<WebhookWithSecret> {
      const secret = generateSecret();
      return await runOnce(db, request, now(), async (tx) => {
        const webhook = await owned(tx, userId, id);
        await replaceSecret(tx, id, secret, now() + changeoverMs);
        return { ...publicWebhook(webhook), secret };
      });
    },

    async test(userId: string, id: number, request: Request): Promise<Delivery> {
      const delivery = await runOnce(db, request, now(), async (tx) => {
        refuseDisabled(await owned(tx, userId, id));
        return await deliveryOf(tx, id, await insertTestDelivery(tx, id, now()));
      });
      deps.publish(userId);
      return delivery;
    },

    async listDeliveries(userId: string, id: number, limit: number, before: number | undefined): Promise<Delivery[]> {
      await owned(db, userId, id);
      return (await listDeliveries(db, id, limit, before)).map(publicDelivery);
    },

    async readDelivery(userId: string, id: number, delivery: number): Promise<Delivery> {
      await owned(db, userId, id);
      return await deliveryOf(db, id, delivery);
    },

    async redeliver(userId: string, id: number, delivery: number, request: Request): Promise<Delivery> {
      const again = await runOnce(db, request, now(), async (tx) => {
        refuseDisabled(await owned(tx, userId, id));
        await deliveryOf(tx, id, delivery);
        await requeueDelivery(tx, delivery, now());
        return await deliveryOf(tx, id, delivery);
      });
      deps.publish(userId);
      return again;
    },

    async disable(actor: Actor, userId: string, id: number, reason: string, request: Request): Promise<Webhook> {
      const act = {
        actor,
        act: 'webhook.disable',
        subject: `${userId}/${id}`,
        details: { reason },
        carryOut: async (tx: Tx, at: number) => {
          const { url } = await owned(tx, userId, id);
          if (await disableWebhook(tx, id, reason, at)) {
            const data = { webhook_id: id, url, reason };
            await insertEvent(tx, { userId, job: null, kind: 'webhook.disabled', data, at });
          }
          return publicWebhook(await owned(tx, userId, id));
        },
      };
      const webhook = await administer(db, request, act, now());
      deps.publish(userId);
      return webhook;
    },
  };
}

async function owned(db: Db, userId: string, id: number): Promise<WebhookRecord> {
  const webhook = Number.isSafeInteger(id) ? await findWebhook(db, userId, id) : undefined;
  if (webhook !== undefined) return webhook;
  throw new BursarError('webhook_unknown', 'There is no webhook of that number. GET /webhooks/ lists yours.');
}

async function deliveryOf(db: Db, webhookId: number, id: number): Promise<Delivery> {
  const delivery = Number.isSafeInteger(id) ? await findDelivery(db, webhookId, id) : undefined;
  if (delivery !== undefined) return publicDelivery(delivery);
  throw new BursarError(
    'webhook_unknown',
    `There is no delivery of that number. GET /webhooks/${webhookId}/deliveries/ lists them.`,
  );
}

function refuseDisabled({ disabledAt, disabledReason }: WebhookRecord): void {
  if (disabledAt === null) return;
  const message = `The webhook is disabled: ${disabledReason ?? ''} Enable it first: PATCH it with {"active": true}.`;
  throw new BursarError('conflict', message);
}

function taken(): BursarError {
  return new BursarError('conflict', 'You have a webhook of this address already. Change that one.');
}
