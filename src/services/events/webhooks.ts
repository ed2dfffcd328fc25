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
  incrementGeneration,
  incrementWebhookCount,
  insertWebhook,
  listWebhooks,
  lockDisabledBy,
  lockUserOfWebhooks,
  updateWebhook,
  validGenerations,
  type WebhookRecord,
} from '../../store/events/webhooks.ts';
import { type EndpointRules, parseEndpointUrl, type ResolveEndpoint } from '../../webhooks/endpoint.ts';
import { deriveSecret, type SecretKey } from '../../webhooks/secrets.ts';
import { executeAdminAction } from '../accounting/admin-actions.ts';
import { findStoredResponse, type IdempotentRequest, runOnce } from '../idempotency.ts';
import type { Actor } from '../identity/actor.ts';

export interface WebhookDeps {
  db: Db;
  rules: EndpointRules;
  resolve: ResolveEndpoint;
  maxPerUser: number;
  secretKey: SecretKey;
  now(): number;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
}

type Webhook = Static<typeof WebhookSchema>;
type WebhookWithSecret = Static<typeof WebhookWithSecretSchema>;
/** The response that is stored for repeated requests: the database has no secret. */
interface StoredWebhook {
  webhook: Webhook;
  generation: number;
}
type Delivery = Static<typeof DeliverySchema>;

const dnsTimeoutMs = 5000;
/** After a rotation, deliveries are signed with the former secret too for this long. */
const formerSecretValidMs = msPerDay;

export type WebhookService = ReturnType<typeof createWebhookService>;

/** Manages webhooks and their deliveries. A webhook of another user is reported as unknown. */
export function createWebhookService(deps: WebhookDeps) {
  const { db, now } = deps;

  /** Rejects a URL that deliveries could never reach. Every delivery checks the URL again. */
  async function validateUrl(text: string): Promise<string> {
    const url = parseEndpointUrl(text, deps.rules);
    await deps.resolve(url, AbortSignal.timeout(dnsTimeoutMs));
    return url.href;
  }

  async function read(userId: string, id: number): Promise<Webhook> {
    return publicWebhook(await requireWebhook(db, userId, id));
  }

  /** Adds the secret to the stored response, if it is still valid. */
  async function withSecret({ webhook, generation }: StoredWebhook): Promise<WebhookWithSecret> {
    const { secretKey } = deps;
    const { user, id: webhookId } = webhook;
    const stored = await findWebhook(db, user, webhookId);
    const isValid =
      stored?.secret.keyId === secretKey.id && validGenerations(stored.secret, now()).includes(generation);
    if (isValid)
      return { ...webhook, secret: deriveSecret(secretKey, { webhookId, createdAt: stored.createdAt, generation }) };
    const message =
      'This request was carried out before, and its secret was replaced since. Replace it again for a new one.';
    throw new BursarError('conflict', message);
  }

  return {
    list: async (userId: string | undefined): Promise<Webhook[]> => (await listWebhooks(db, userId)).map(publicWebhook),

    read,

    async create(
      userId: string,
      body: Static<typeof WebhookBody>,
      request: IdempotentRequest | null,
    ): Promise<WebhookWithSecret> {
      const earlier = await findStoredResponse<StoredWebhook>(db, request);
      if (earlier !== undefined) return await withSecret(earlier);
      const url = await validateUrl(body.url);
      const { events: kinds, description = '' } = body;
      const stored = await runOnce(db, request, now(), async (tx): Promise<StoredWebhook> => {
        if (!(await incrementWebhookCount(tx, userId, deps.maxPerUser))) {
          const message = `You have ${deps.maxPerUser} webhooks, which is the limit. Delete one first.`;
          throw new BursarError('too_many_webhooks', message);
        }
        const id = await insertWebhook(tx, {
          userId,
          url,
          description,
          kinds,
          keyId: deps.secretKey.id,
          createdAt: now(),
        });
        if (id === undefined) throw urlInUse();
        requireEndpointNotDisabled(await listWebhooks(tx, userId), url);
        return { webhook: publicWebhook(await requireWebhook(tx, userId, id)), generation: 1 };
      });
      return await withSecret(stored);
    },

    async update(userId: string, id: number, body: Static<typeof WebhookChangeBody>): Promise<Webhook> {
      await requireWebhook(db, userId, id);
      const url = body.url === undefined ? undefined : await validateUrl(body.url);
      await inTransaction(db, async (tx) => {
        await requireNotDisabledByAdministrator(tx, userId, id);
        const webhooks = await listWebhooks(tx, userId);
        if (webhooks.some((other) => other.id !== id && other.url === url)) throw urlInUse();
        if (url !== undefined) requireEndpointNotDisabled(webhooks, url);
        await updateWebhook(tx, id, {
          ...(url === undefined ? {} : { url }),
          ...(body.description === undefined ? {} : { description: body.description }),
          ...(body.events === undefined ? {} : { kinds: body.events }),
        });
        if (body.active) await enableWebhook(tx, id);
      });
      return await read(userId, id);
    },

    async delete(userId: string, id: number): Promise<Webhook> {
      return await inTransaction(db, async (tx) => {
        const webhook = await requireWebhook(tx, userId, id);
        const deleted = await deleteWebhook(tx, webhook);
        // Another request has deleted it since it was read.
        if (deleted === undefined) throw unknownWebhook();
        if (deleted.disabledBy === 'administrator') throw new BursarError('forbidden', disabledMessage(deleted));
        return publicWebhook(webhook);
      });
    },

    async rotateSecret(userId: string, id: number, request: IdempotentRequest | null): Promise<WebhookWithSecret> {
      const stored = await runOnce(db, request, now(), async (tx): Promise<StoredWebhook> => {
        const webhook = await requireWebhook(tx, userId, id);
        const keyId = deps.secretKey.id;
        // A secret of another key cannot sign.
        const formerUntil = webhook.secret.keyId === keyId ? now() + formerSecretValidMs : 0;
        return {
          webhook: publicWebhook(webhook),
          generation: await incrementGeneration(tx, id, { keyId, formerUntil }),
        };
      });
      return await withSecret(stored);
    },

    async test(userId: string, id: number, request: IdempotentRequest | null): Promise<Delivery> {
      const delivery = await runOnce(db, request, now(), async (tx) => {
        await lockUserOfWebhooks(tx, userId);
        requireEnabled(await requireWebhook(tx, userId, id));
        return await requireDelivery(tx, id, await insertTestDelivery(tx, id, now()));
      });
      deps.publish(userId);
      return delivery;
    },

    async listDeliveries(userId: string, id: number, limit: number, before: number | undefined): Promise<Delivery[]> {
      await requireWebhook(db, userId, id);
      return (await listDeliveries(db, id, limit, before)).map(publicDelivery);
    },

    async readDelivery(userId: string, id: number, delivery: number): Promise<Delivery> {
      await requireWebhook(db, userId, id);
      return await requireDelivery(db, id, delivery);
    },

    async redeliver(
      userId: string,
      id: number,
      delivery: number,
      request: IdempotentRequest | null,
    ): Promise<Delivery> {
      const redelivery = await runOnce(db, request, now(), async (tx) => {
        await lockUserOfWebhooks(tx, userId);
        requireEnabled(await requireWebhook(tx, userId, id));
        await requireDelivery(tx, id, delivery);
        await requeueDelivery(tx, delivery, now());
        return await requireDelivery(tx, id, delivery);
      });
      deps.publish(userId);
      return redelivery;
    },

    async disable(
      actor: Actor,
      userId: string,
      id: number,
      reason: string,
      request: IdempotentRequest | null,
    ): Promise<Webhook> {
      const action = {
        actor,
        name: 'webhook.disable',
        subject: `${userId}/${id}`,
        details: { reason },
        execute: async (tx: Tx, at: number) => {
          await lockUserOfWebhooks(tx, userId);
          const { url } = await requireWebhook(tx, userId, id);
          if (await disableWebhook(tx, id, { by: 'administrator', reason, now: at })) {
            const data = { webhook_id: id, url, reason };
            await insertEvent(tx, { userId, job: null, kind: 'webhook.disabled', data, at });
          }
          return publicWebhook(await requireWebhook(tx, userId, id));
        },
      };
      const webhook = await executeAdminAction(db, request, action, now());
      deps.publish(userId);
      return webhook;
    },

    async enable(
      actor: Actor,
      userId: string,
      id: number,
      reason: string,
      request: IdempotentRequest | null,
    ): Promise<Webhook> {
      const action = {
        actor,
        name: 'webhook.enable',
        subject: `${userId}/${id}`,
        details: { reason },
        execute: async (tx: Tx) => {
          await requireWebhook(tx, userId, id);
          await enableWebhook(tx, id);
          return publicWebhook(await requireWebhook(tx, userId, id));
        },
      };
      return await executeAdminAction(db, request, action, now());
    },
  };
}

/**
 * Throws if an administrator has disabled the webhook. Its owner must not change or delete it either: then the owner could
 * register the same URL again.
 */
async function requireNotDisabledByAdministrator(tx: Tx, userId: string, id: number): Promise<void> {
  if ((await lockDisabledBy(tx, id)) !== 'administrator') return;
  throw new BursarError('forbidden', disabledMessage(await requireWebhook(tx, userId, id)));
}

/** Throws if an administrator has disabled a webhook of the same endpoint. Another query does not make another endpoint. */
function requireEndpointNotDisabled(webhooks: readonly WebhookRecord[], url: string): void {
  const isSameEndpoint = (other: WebhookRecord) => toEndpoint(other.url) === toEndpoint(url);
  const disabled = webhooks.find((other) => other.disabledBy === 'administrator' && isSameEndpoint(other));
  if (disabled !== undefined) throw new BursarError('forbidden', disabledMessage(disabled));
}

function toEndpoint(text: string): string {
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname}`;
}

const disabledMessage = ({ disabledReason }: Pick<WebhookRecord, 'disabledReason'>) =>
  `An administrator has disabled the webhook: ${disabledReason ?? ''} Ask an administrator to enable it again.`;

async function requireWebhook(db: Db, userId: string, id: number): Promise<WebhookRecord> {
  const webhook = Number.isSafeInteger(id) ? await findWebhook(db, userId, id) : undefined;
  if (webhook !== undefined) return webhook;
  throw unknownWebhook();
}

function unknownWebhook(): BursarError {
  return new BursarError('webhook_unknown', 'There is no webhook with this id. GET /webhooks/ lists yours.');
}

async function requireDelivery(db: Db, webhookId: number, id: number): Promise<Delivery> {
  const delivery = Number.isSafeInteger(id) ? await findDelivery(db, webhookId, id) : undefined;
  if (delivery !== undefined) return publicDelivery(delivery);
  throw new BursarError(
    'webhook_unknown',
    `There is no delivery with this id. GET /webhooks/${webhookId}/deliveries/ lists them.`,
  );
}

function requireEnabled(webhook: WebhookRecord): void {
  const { disabledAt, disabledReason, disabledBy } = webhook;
  if (disabledAt === null) return;
  if (disabledBy === 'administrator') throw new BursarError('forbidden', disabledMessage(webhook));
  const message = `The webhook is disabled: ${disabledReason ?? ''} Enable it first, by PATCH with {"active": true}.`;
  throw new BursarError('conflict', message);
}

function urlInUse(): BursarError {
  return new BursarError('conflict', 'You already have a webhook with this URL. Change that one.');
}
