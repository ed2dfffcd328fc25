import type { Static } from 'typebox';
import {
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
import { insertEvent } from '../../store/events/events.ts';
import * as store from '../../store/events/webhooks.ts';
import { parseEndpointUrl } from '../../webhooks/endpoint.ts';
import { deriveSecret } from '../../webhooks/secrets.ts';
import { type AdminRequest, executeAdminAction } from '../admin-action.ts';
import { findStoredResponse, type IdempotentRequest, runOnce } from '../idempotency.ts';
import type { ServiceDeps } from '../service-deps.ts';

// A webhook of another user is reported as unknown.

export type WebhookDeps = Pick<
  ServiceDeps,
  'db' | 'now' | 'endpointRules' | 'maxWebhooks' | 'resolveEndpoint' | 'secretKey' | 'userTopic'
>;

type Webhook = Static<typeof WebhookSchema>;
type WebhookWithSecret = Static<typeof WebhookWithSecretSchema>;
/** The response that is stored for repeated requests: the database has no secret. */
interface StoredWebhook {
  webhook: Webhook;
  generation: number;
}

const dnsTimeoutMs = 5000;
/** After a rotation, deliveries are signed with the former secret too for this long. */
const formerSecretValidMs = msPerDay;

/** Lists the webhooks of a user or, without a user, of everybody. */
export async function listWebhooks({ db }: Pick<WebhookDeps, 'db'>, userId?: string): Promise<Webhook[]> {
  return (await store.listWebhooks(db, userId)).map(publicWebhook);
}

export async function readWebhook({ db }: Pick<WebhookDeps, 'db'>, userId: string, id: number): Promise<Webhook> {
  return publicWebhook(await requireWebhook(db, userId, id));
}

export async function createWebhook(
  deps: WebhookDeps,
  userId: string,
  body: Static<typeof WebhookBody>,
  request: IdempotentRequest | null,
): Promise<WebhookWithSecret> {
  const { db, now, maxWebhooks, secretKey } = deps;
  const earlier = await findStoredResponse<StoredWebhook>(db, request);
  if (earlier !== undefined) return await withSecret(deps, earlier);
  const url = await validateUrl(deps, body.url);
  const { events: kinds, description = '' } = body;
  const stored = await runOnce(db, request, now(), async (tx): Promise<StoredWebhook> => {
    if (!(await store.incrementWebhookCount(tx, userId, maxWebhooks))) {
      const message = `You have ${maxWebhooks} webhooks, which is the limit. Delete one first.`;
      throw new BursarError('too_many_webhooks', message);
    }
    const webhook = { userId, url, description, kinds, keyId: secretKey.id, createdAt: now() };
    const id = await store.insertWebhook(tx, webhook);
    if (id === undefined) throw urlInUse();
    requireEndpointNotDisabled(await store.listWebhooks(tx, userId), url);
    return { webhook: publicWebhook(await requireWebhook(tx, userId, id)), generation: 1 };
  });
  return await withSecret(deps, stored);
}

/** Rejects a URL that deliveries could never reach. Every delivery checks the URL again. */
async function validateUrl({ endpointRules, resolveEndpoint }: WebhookDeps, text: string): Promise<string> {
  const url = parseEndpointUrl(text, endpointRules);
  await resolveEndpoint(url, AbortSignal.timeout(dnsTimeoutMs));
  return url.href;
}

/** Adds the secret to the stored response, if it is still valid. */
async function withSecret(
  { db, secretKey, now }: WebhookDeps,
  { webhook, generation }: StoredWebhook,
): Promise<WebhookWithSecret> {
  const stored = await store.findWebhook(db, webhook.user, webhook.id);
  const isValid = stored?.keyId === secretKey.id && store.validGenerations(stored, now()).includes(generation);
  if (!isValid) {
    const message =
      'This request was carried out before, and its secret was replaced since. Replace it again for a new one.';
    throw new BursarError('conflict', message);
  }
  const { createdAt } = stored;
  return { ...webhook, secret: deriveSecret(secretKey, { webhookId: webhook.id, createdAt, generation }) };
}

export async function changeWebhook(
  deps: WebhookDeps,
  userId: string,
  id: number,
  body: Static<typeof WebhookChangeBody>,
): Promise<Webhook> {
  const { db } = deps;
  await requireWebhook(db, userId, id);
  const url = body.url === undefined ? undefined : await validateUrl(deps, body.url);
  return await inTransaction(db, async (tx) => {
    await requireNotDisabledByAdministrator(tx, userId, id);
    const webhooks = await store.listWebhooks(tx, userId);
    if (webhooks.some((other) => other.id !== id && other.url === url)) throw urlInUse();
    if (url !== undefined) requireEndpointNotDisabled(webhooks, url);
    await store.updateWebhook(tx, id, { url, description: body.description, kinds: body.events });
    if (body.active) await store.enableWebhook(tx, id);
    return await readWebhook({ db: tx }, userId, id);
  });
}

export async function deleteWebhook({ db }: Pick<WebhookDeps, 'db'>, userId: string, id: number): Promise<Webhook> {
  return await inTransaction(db, async (tx) => {
    const webhook = await requireWebhook(tx, userId, id);
    const deleted = await store.deleteWebhook(tx, webhook);
    // Another request has deleted it since it was read.
    if (deleted === undefined) throw unknownWebhook();
    if (deleted.disabledBy === 'administrator') throw new BursarError('forbidden', disabledMessage(deleted));
    return publicWebhook(webhook);
  });
}

export async function rotateWebhookSecret(
  deps: WebhookDeps,
  userId: string,
  id: number,
  request: IdempotentRequest | null,
): Promise<WebhookWithSecret> {
  const { db, now, secretKey } = deps;
  const stored = await runOnce(db, request, now(), async (tx): Promise<StoredWebhook> => {
    const webhook = await requireWebhook(tx, userId, id);
    const keyId = secretKey.id;
    // A secret of another key cannot sign.
    const formerUntil = webhook.keyId === keyId ? now() + formerSecretValidMs : 0;
    const generation = await store.incrementGeneration(tx, id, { keyId, formerUntil });
    return { webhook: publicWebhook(webhook), generation };
  });
  return await withSecret(deps, stored);
}

/** By an administrator or operator. */
export async function disableWebhook(
  deps: WebhookDeps,
  userId: string,
  id: number,
  reason: string,
  request: AdminRequest,
): Promise<Webhook> {
  const action = { ...request, name: 'webhook.disable', subject: `${userId}/${id}`, details: { reason } };
  const webhook = await executeAdminAction(deps, action, async (tx, at) => {
    await store.lockUserOfWebhooks(tx, userId);
    const { url } = await requireWebhook(tx, userId, id);
    if (await store.disableWebhook(tx, id, { by: 'administrator', reason, now: at })) {
      const data = { webhook_id: id, url, reason };
      await insertEvent(tx, { userId, job: null, kind: 'webhook.disabled', data, at });
    }
    return await readWebhook({ db: tx }, userId, id);
  });
  deps.userTopic.publish(userId);
  return webhook;
}

/** By an administrator or operator. */
export async function enableWebhook(
  deps: WebhookDeps,
  userId: string,
  id: number,
  reason: string,
  request: AdminRequest,
): Promise<Webhook> {
  const action = { ...request, name: 'webhook.enable', subject: `${userId}/${id}`, details: { reason } };
  return await executeAdminAction(deps, action, async (tx) => {
    await requireWebhook(tx, userId, id);
    await store.enableWebhook(tx, id);
    return await readWebhook({ db: tx }, userId, id);
  });
}

/**
 * Throws if an administrator has disabled the webhook. Its owner must not change or delete it either: then the owner could
 * register the same URL again.
 */
async function requireNotDisabledByAdministrator(tx: Tx, userId: string, id: number): Promise<void> {
  if ((await store.lockDisabledBy(tx, id)) !== 'administrator') return;
  throw new BursarError('forbidden', disabledMessage(await requireWebhook(tx, userId, id)));
}

/** Throws if an administrator has disabled a webhook of the same endpoint. Another query does not make another endpoint. */
function requireEndpointNotDisabled(webhooks: readonly store.WebhookRecord[], url: string): void {
  const isSameEndpoint = (other: store.WebhookRecord) => toEndpoint(other.url) === toEndpoint(url);
  const disabled = webhooks.find((other) => other.disabledBy === 'administrator' && isSameEndpoint(other));
  if (disabled !== undefined) throw new BursarError('forbidden', disabledMessage(disabled));
}

function toEndpoint(text: string): string {
  const { origin, pathname } = new URL(text);
  return `${origin}${pathname}`;
}

export const disabledMessage = ({ disabledReason }: Pick<store.WebhookRecord, 'disabledReason'>) =>
  `An administrator has disabled the webhook: ${disabledReason ?? ''} Ask an administrator to enable it again.`;

export async function requireWebhook(db: Db, userId: string, id: number): Promise<store.WebhookRecord> {
  const webhook = await store.findWebhook(db, userId, id);
  if (webhook === undefined) throw unknownWebhook();
  return webhook;
}

function unknownWebhook(): BursarError {
  return new BursarError('webhook_unknown', 'There is no webhook with this id. GET /webhooks/ lists yours.');
}

function urlInUse(): BursarError {
  return new BursarError('conflict', 'You already have a webhook with this URL. Change that one.');
}
