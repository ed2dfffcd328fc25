import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import Type, { type Static } from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import { WebhookBody, WebhookChangeBody } from '../../contract/webhook.ts';
import type { WebhookService } from '../../services/events/webhooks.ts';
import type { AccessService } from '../../services/identity/access.ts';
import { describeRoute } from '../openapi/describe-route.ts';
import { actorOf } from '../request/authentication.ts';
import { idempotentRequest, keyHeader } from '../request/idempotency-key.ts';
import { ownerScopes } from '../request/owner-scope.ts';
import { numericIdOf } from '../request/path-params.ts';
import { addResource } from './resource.ts';

const tag = 'webhooks';
const webhookParams = { webhook_id: Type.String({ description: 'The id of the webhook.' }) };
const deliveryParams = { ...webhookParams, delivery_id: Type.String({ description: 'The id of the delivery.' }) };
const Params = Type.Object(webhookParams);
const KeyHeader = Type.Object(keyHeader);

const userIdOf = (request: FastifyRequest) => actorOf(request).userId;
/** No cache between here and the caller may keep a response that shows a secret. */
const withSecret = (reply: FastifyReply) => reply.header('cache-control', 'no-store');
const webhookIdOf = (request: FastifyRequest) => numericIdOf(request, 'webhook_id');
const deliveryIdOf = (request: FastifyRequest) => numericIdOf(request, 'delivery_id');

/** URLs that a user registers to receive events. */
export function webhookRoutes(app: FastifyInstance, webhooks: WebhookService): void {
  addResource(app, '/webhooks/', {
    GET: {
      access: { action: 'webhooks.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'listWebhooks', 'List your webhooks', { 200: Type.Array(Type.Ref('Webhook')) }),
        description: 'With their state. No list shows a secret.',
      },
      handler: (request) => webhooks.list(userIdOf(request)),
    },
    POST: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'createWebhook', 'Create a webhook', { 201: Type.Ref('WebhookWithSecret') }),
        description: 'Events are sent to its URL, signed as in Standard Webhooks. Only this response shows the secret.',
        headers: KeyHeader,
        body: WebhookBody,
      },
      handler: async (request, reply) => {
        const body = request.body as Static<typeof WebhookBody>;
        const webhook = await webhooks.create(userIdOf(request), body, idempotentRequest(request));
        return withSecret(reply).code(201).send(webhook);
      },
    },
  });
  addResource(app, '/webhooks/:webhook_id/', {
    GET: {
      access: { action: 'webhooks.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'getWebhook', 'Read one webhook', { 200: Type.Ref('Webhook') }),
        description: 'Shows whether deliveries fail, and why the webhook was disabled.',
        params: Params,
      },
      handler: (request) => webhooks.read(userIdOf(request), webhookIdOf(request)),
    },
    PATCH: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'changeWebhook', 'Change a webhook or enable it again', { 200: Type.Ref('Webhook') }),
        description:
          'Fields that the body omits stay as they are. A webhook that an administrator has disabled cannot be changed.',
        params: Params,
        body: WebhookChangeBody,
      },
      handler: (request) =>
        webhooks.update(userIdOf(request), webhookIdOf(request), request.body as Static<typeof WebhookChangeBody>),
    },
    DELETE: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'deleteWebhook', 'Delete a webhook', { 200: Type.Ref('Webhook') }),
        description: 'Returns the webhook as it was. A webhook that an administrator has disabled cannot be deleted.',
        params: Params,
      },
      handler: (request) => webhooks.delete(userIdOf(request), webhookIdOf(request)),
    },
  });
  addResource(app, '/webhooks/:webhook_id/secret/', {
    POST: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'rotateWebhookSecret', 'Replace the secret of a webhook', {
          200: Type.Ref('WebhookWithSecret'),
        }),
        description: 'For one day, deliveries are signed with the old secret too.',
        params: Params,
        headers: KeyHeader,
      },
      handler: async (request, reply) => {
        const ids = [userIdOf(request), webhookIdOf(request)] as const;
        return withSecret(reply).send(await webhooks.rotateSecret(...ids, idempotentRequest(request)));
      },
    },
  });
  addResource(app, '/webhooks/:webhook_id/test/', {
    POST: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'testWebhook', 'Send a test delivery', { 202: Type.Ref('Delivery') }),
        description: 'Sends an event of the type `webhook.test`. Read the delivery to see the result.',
        params: Params,
        headers: KeyHeader,
      },
      handler: async (request, reply) =>
        reply.code(202).send(await webhooks.test(userIdOf(request), webhookIdOf(request), idempotentRequest(request))),
    },
  });
  deliveryRoutes(app, webhooks);
}

const DeliveryQuery = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 1000, default: 100 }),
  before: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: Number.MAX_SAFE_INTEGER,
      description: 'Only deliveries with a smaller id, for the next page.',
    }),
  ),
});

function deliveryRoutes(app: FastifyInstance, webhooks: WebhookService): void {
  const prefix = '/webhooks/:webhook_id/deliveries/';
  addResource(app, prefix, {
    GET: {
      access: { action: 'webhooks.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'listDeliveries', 'List deliveries, newest first', {
          200: Type.Array(Type.Ref('Delivery')),
        }),
        description: 'With the result of the last attempt. Deliveries are kept as long as their events.',
        params: Params,
        querystring: DeliveryQuery,
      },
      handler: (request) => {
        const { limit, before } = request.query as Static<typeof DeliveryQuery>;
        return webhooks.listDeliveries(userIdOf(request), webhookIdOf(request), limit, before);
      },
    },
  });
  addResource(app, `${prefix}:delivery_id/`, {
    GET: {
      access: { action: 'webhooks.read', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'getDelivery', 'Read one delivery', { 200: Type.Ref('Delivery') }),
        description: 'With the result of the last attempt.',
        params: Type.Object(deliveryParams),
      },
      handler: (request) => webhooks.readDelivery(userIdOf(request), webhookIdOf(request), deliveryIdOf(request)),
    },
  });
  addResource(app, `${prefix}:delivery_id/send/`, {
    POST: {
      access: { action: 'webhooks.write', reach: 'own' },
      schema: {
        ...describeRoute(tag, 'resendDelivery', 'Send a delivery again with the same id', {
          202: Type.Ref('Delivery'),
        }),
        description: 'The receiver recognizes it by its `webhook-id`.',
        params: Type.Object(deliveryParams),
        headers: KeyHeader,
      },
      handler: async (request, reply) => {
        const ids = [webhookIdOf(request), deliveryIdOf(request)] as const;
        return reply.code(202).send(await webhooks.redeliver(userIdOf(request), ...ids, idempotentRequest(request)));
      },
    },
  });
}

/** Lets administrators list the webhooks of all users, and disable and enable one. */
export function adminWebhookRoutes(app: FastifyInstance, webhooks: WebhookService, access: AccessService): void {
  const { ofUser, allUsers } = ownerScopes('webhooks', access);
  for (const scope of [ofUser, allUsers]) {
    addResource(app, scope.prefix, {
      GET: {
        access: { action: 'webhooks.read', reach: scope.reach },
        schema: {
          ...describeRoute(scope.tag, scope.operationId('listWebhooks'), scope.describe('webhooks'), {
            200: Type.Array(Type.Ref('Webhook')),
          }),
          description: 'With their state. No list shows a secret.',
          params: Type.Object({ ...scope.params }),
        },
        handler: async (request) => webhooks.list(await scope.ownerOf(request)),
      },
    });
  }
  const actions = [
    ['disable', 'Disable a webhook', 'Its owner cannot enable, change or delete it.'],
    ['enable', 'Enable a webhook again', 'Whoever has disabled it.'],
  ] as const;
  for (const [action, summary, description] of actions) {
    addResource(app, `${ofUser.prefix}:webhook_id/${action}/`, {
      POST: {
        access: { action: 'webhooks.write', reach: 'others' },
        schema: {
          ...describeRoute(ofUser.tag, `${action}Webhook`, summary, { 200: Type.Ref('Webhook') }),
          description,
          params: Type.Object({ ...ofUser.params, ...webhookParams }),
          headers: KeyHeader,
          body: ReasonBody,
        },
        handler: async (request) => {
          const userId = (await ofUser.ownerOf(request)) ?? '';
          const { reason } = request.body as Static<typeof ReasonBody>;
          const change = [actorOf(request), userId, webhookIdOf(request), reason, idempotentRequest(request)] as const;
          return await webhooks[action](...change);
        },
      },
    });
  }
}
