import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import {
  type DeliverySchema,
  WebhookBody,
  WebhookChangeBody,
  type WebhookSchema,
  type WebhookWithSecretSchema,
} from '../../contract/webhook.ts';
import type { IdempotentRequest } from '../../services/idempotency.ts';
import type { Actor } from '../../services/identity/actor.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { type OwnerScopeServices, ownerScopes } from '../request/owner-scope.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

type Webhook = Static<typeof WebhookSchema>;
type WebhookWithSecret = Static<typeof WebhookWithSecretSchema>;
type Delivery = Static<typeof DeliverySchema>;
/** The request under its key; null where its caller has sent none. */
type Once = IdempotentRequest | null;

export interface WebhookServices extends OwnerScopeServices {
  listWebhooks(userId: string | undefined): Promise<Webhook[]>;
  readWebhook(userId: string, id: number): Promise<Webhook>;
  createWebhook(userId: string, body: Static<typeof WebhookBody>, once: Once): Promise<WebhookWithSecret>;
  changeWebhook(userId: string, id: number, body: Static<typeof WebhookChangeBody>): Promise<Webhook>;
  deleteWebhook(userId: string, id: number): Promise<Webhook>;
  rotateSecret(userId: string, id: number, once: Once): Promise<WebhookWithSecret>;
  testWebhook(userId: string, id: number, once: Once): Promise<Delivery>;
  listDeliveries(userId: string, id: number, limit: number, before: number | undefined): Promise<Delivery[]>;
  readDelivery(userId: string, id: number, delivery: number): Promise<Delivery>;
  sendAgain(userId: string, id: number, delivery: number, once: Once): Promise<Delivery>;
  disableWebhook(actor: Actor, userId: string, id: number, reason: string, once: Once): Promise<Webhook>;
}

const tag = 'webhooks';
const webhookParams = { webhook_id: Type.String({ description: 'The number of the webhook.' }) };
const deliveryParams = { ...webhookParams, delivery_id: Type.String({ description: 'The number of the delivery.' }) };
const Params = Type.Object(webhookParams);
const KeyHeader = Type.Object(keyHeader);

const onceOf = (request: FastifyRequest) => idempotentRequest(request, () => request.body ?? null);
const userOf = (request: FastifyRequest) => actorOf(request).userId;
/** NaN, which nothing has for a number, where the path has something else. */
const numberIn = (request: FastifyRequest, name: 'webhook_id' | 'delivery_id') => {
  const text = (request.params as Record<string, string>)[name] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
};
const webhookIn = (request: FastifyRequest) => numberIn(request, 'webhook_id');
const deliveryIn = (request: FastifyRequest) => numberIn(request, 'delivery_id');

/** Addresses that users want their events to be sent to. */
export function webhookRoutes(app: FastifyInstance, services: WebhookServices): void {
  resource(app, '/webhooks/', {
    GET: {
      schema: describe(tag, 'Your webhooks', { 200: Type.Array(Type.Ref('Webhook')) }),
      handler: (request) => services.listWebhooks(userOf(request)),
    },
    POST: {
      schema: {
        ...describe(tag, 'Have events sent to an address', { 201: Type.Ref('WebhookWithSecret') }),
        description: 'Deliveries are signed as in Standard Webhooks. The secret is shown in this answer only.',
        headers: KeyHeader,
        body: WebhookBody,
      },
      handler: async (request, reply) => {
        const body = request.body as Static<typeof WebhookBody>;
        const webhook = await services.createWebhook(userOf(request), body, onceOf(request));
        return reply.code(201).send(webhook);
      },
    },
  });
  resource(app, '/webhooks/:webhook_id/', {
    GET: {
      schema: { ...describe(tag, 'One webhook', { 200: Type.Ref('Webhook') }), params: Params },
      handler: (request) => services.readWebhook(userOf(request), webhookIn(request)),
    },
    PATCH: {
      schema: {
        ...describe(tag, 'Change a webhook, or enable it again', { 200: Type.Ref('Webhook') }),
        params: Params,
        body: WebhookChangeBody,
      },
      handler: (request) =>
        services.changeWebhook(userOf(request), webhookIn(request), request.body as Static<typeof WebhookChangeBody>),
    },
    DELETE: {
      schema: { ...describe(tag, 'Delete a webhook', { 200: Type.Ref('Webhook') }), params: Params },
      handler: (request) => services.deleteWebhook(userOf(request), webhookIn(request)),
    },
  });
  resource(app, '/webhooks/:webhook_id/secret/', {
    POST: {
      schema: {
        ...describe(tag, 'Replace the secret of a webhook', { 200: Type.Ref('WebhookWithSecret') }),
        description: 'The one before it signs too, for a day.',
        params: Params,
        headers: KeyHeader,
      },
      handler: (request) => services.rotateSecret(userOf(request), webhookIn(request), onceOf(request)),
    },
  });
  resource(app, '/webhooks/:webhook_id/test/', {
    POST: {
      schema: { ...describe(tag, 'Send a test', { 202: Type.Ref('Delivery') }), params: Params, headers: KeyHeader },
      handler: async (request, reply) =>
        reply.code(202).send(await services.testWebhook(userOf(request), webhookIn(request), onceOf(request))),
    },
  });
  deliveryRoutes(app, services);
}

const DeliveryQuery = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
  before: Type.Optional(Type.Integer({ description: 'Only deliveries with a smaller id: the next page.' })),
});

function deliveryRoutes(app: FastifyInstance, services: WebhookServices): void {
  const prefix = '/webhooks/:webhook_id/deliveries/';
  resource(app, prefix, {
    GET: {
      schema: {
        ...describe(tag, 'What became of its deliveries, the newest first', { 200: Type.Array(Type.Ref('Delivery')) }),
        params: Params,
        querystring: DeliveryQuery,
      },
      handler: (request) => {
        const { limit, before } = request.query as Static<typeof DeliveryQuery>;
        return services.listDeliveries(userOf(request), webhookIn(request), limit, before);
      },
    },
  });
  resource(app, `${prefix}:delivery_id/`, {
    GET: {
      schema: {
        ...describe(tag, 'What became of a delivery', { 200: Type.Ref('Delivery') }),
        params: Type.Object(deliveryParams),
      },
      handler: (request) => services.readDelivery(userOf(request), webhookIn(request), deliveryIn(request)),
    },
  });
  resource(app, `${prefix}:delivery_id/send/`, {
    POST: {
      schema: {
        ...describe(tag, 'Send a delivery again, under the same id', { 202: Type.Ref('Delivery') }),
        params: Type.Object(deliveryParams),
        headers: KeyHeader,
      },
      handler: async (request, reply) => {
        const ids = [webhookIn(request), deliveryIn(request)] as const;
        return reply.code(202).send(await services.sendAgain(userOf(request), ...ids, onceOf(request)));
      },
    },
  });
}

/** Administrators see everybody's, and can stop one. */
export function webhookOversightRoutes(app: FastifyInstance, services: WebhookServices): void {
  const { ofUser, everybody } = ownerScopes('webhooks', services);
  for (const whose of [ofUser, everybody]) {
    resource(app, whose.prefix, {
      GET: {
        schema: {
          ...describe(whose.tag, whose.describe('webhooks'), { 200: Type.Array(Type.Ref('Webhook')) }),
          params: Type.Object({ ...whose.params }),
        },
        handler: async (request) => services.listWebhooks(await whose.ownerOf(request)),
      },
    });
  }
  resource(app, `${ofUser.prefix}:webhook_id/disable/`, {
    POST: {
      schema: {
        ...describe(ofUser.tag, 'Send nothing more to a webhook', { 200: Type.Ref('Webhook') }),
        params: Type.Object({ ...ofUser.params, ...webhookParams }),
        headers: KeyHeader,
        body: ReasonBody,
      },
      handler: async (request) => {
        const userId = (await ofUser.ownerOf(request)) ?? '';
        const { reason } = request.body as Static<typeof ReasonBody>;
        return await services.disableWebhook(actorOf(request), userId, webhookIn(request), reason, onceOf(request));
      },
    },
  });
}
