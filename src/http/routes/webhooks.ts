import type { FastifyInstance, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import { WebhookBody, WebhookChangeBody } from '../../contract/webhook.ts';
import type { WebhookService } from '../../services/events/webhooks.ts';
import type { AccessService } from '../../services/identity/access.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { ownerScopes } from '../request/owner-scope.ts';
import { describe } from '../server/openapi.ts';
import { resource } from './resource.ts';

const tag = 'webhooks';
const webhookParams = { webhook_id: Type.String({ description: 'The number of the webhook.' }) };
const deliveryParams = { ...webhookParams, delivery_id: Type.String({ description: 'The number of the delivery.' }) };
const Params = Type.Object(webhookParams);
const KeyHeader = Type.Object(keyHeader);

const userOf = (request: FastifyRequest) => actorOf(request).userId;
/** NaN, which nothing has for a number, where the path has something else. */
const numberIn = (request: FastifyRequest, name: 'webhook_id' | 'delivery_id') => {
  const text = (request.params as Record<string, string>)[name] ?? '';
  return /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
};
const webhookIn = (request: FastifyRequest) => numberIn(request, 'webhook_id');
const deliveryIn = (request: FastifyRequest) => numberIn(request, 'delivery_id');

/** Addresses that users want their events to be sent to. */
export function webhookRoutes(app: FastifyInstance, webhooks: WebhookService): void {
  resource(app, '/webhooks/', {
    GET: {
      schema: describe(tag, 'Your webhooks', { 200: Type.Array(Type.Ref('Webhook')) }),
      handler: (request) => webhooks.list(userOf(request)),
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
        const webhook = await webhooks.create(userOf(request), body, idempotentRequest(request));
        return reply.code(201).send(webhook);
      },
    },
  });
  resource(app, '/webhooks/:webhook_id/', {
    GET: {
      schema: { ...describe(tag, 'One webhook', { 200: Type.Ref('Webhook') }), params: Params },
      handler: (request) => webhooks.read(userOf(request), webhookIn(request)),
    },
    PATCH: {
      schema: {
        ...describe(tag, 'Change a webhook, or enable it again', { 200: Type.Ref('Webhook') }),
        params: Params,
        body: WebhookChangeBody,
      },
      handler: (request) =>
        webhooks.update(userOf(request), webhookIn(request), request.body as Static<typeof WebhookChangeBody>),
    },
    DELETE: {
      schema: { ...describe(tag, 'Delete a webhook', { 200: Type.Ref('Webhook') }), params: Params },
      handler: (request) => webhooks.delete(userOf(request), webhookIn(request)),
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
      handler: (request) => webhooks.rotateSecret(userOf(request), webhookIn(request), idempotentRequest(request)),
    },
  });
  resource(app, '/webhooks/:webhook_id/test/', {
    POST: {
      schema: { ...describe(tag, 'Send a test', { 202: Type.Ref('Delivery') }), params: Params, headers: KeyHeader },
      handler: async (request, reply) =>
        reply.code(202).send(await webhooks.test(userOf(request), webhookIn(request), idempotentRequest(request))),
    },
  });
  deliveryRoutes(app, webhooks);
}

const DeliveryQuery = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
  before: Type.Optional(Type.Integer({ description: 'Only deliveries with a smaller id: the next page.' })),
});

function deliveryRoutes(app: FastifyInstance, webhooks: WebhookService): void {
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
        return webhooks.listDeliveries(userOf(request), webhookIn(request), limit, before);
      },
    },
  });
  resource(app, `${prefix}:delivery_id/`, {
    GET: {
      schema: {
        ...describe(tag, 'What became of a delivery', { 200: Type.Ref('Delivery') }),
        params: Type.Object(deliveryParams),
      },
      handler: (request) => webhooks.readDelivery(userOf(request), webhookIn(request), deliveryIn(request)),
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
        return reply.code(202).send(await webhooks.redeliver(userOf(request), ...ids, idempotentRequest(request)));
      },
    },
  });
}

/** Administrators see everybody's, and can stop one. */
export function adminWebhookRoutes(app: FastifyInstance, webhooks: WebhookService, access: AccessService): void {
  const { ofUser, everybody } = ownerScopes('webhooks', access);
  for (const scope of [ofUser, everybody]) {
    resource(app, scope.prefix, {
      GET: {
        schema: {
          ...describe(scope.tag, scope.describe('webhooks'), { 200: Type.Array(Type.Ref('Webhook')) }),
          params: Type.Object({ ...scope.params }),
        },
        handler: async (request) => webhooks.list(await scope.ownerOf(request)),
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
        return await webhooks.disable(actorOf(request), userId, webhookIn(request), reason, idempotentRequest(request));
      },
    },
  });
}
