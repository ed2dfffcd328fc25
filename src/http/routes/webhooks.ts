import Type from 'typebox';
import { ReasonBody } from '../../contract/administration.ts';
import {
  DeliverySchema,
  WebhookBody,
  WebhookChangeBody,
  WebhookSchema,
  WebhookWithSecretSchema,
} from '../../contract/webhook.ts';
import { listDeliveries, readDelivery, resendDelivery, testWebhook } from '../../services/events/deliveries.ts';
import {
  changeWebhook,
  createWebhook,
  deleteWebhook,
  disableWebhook,
  enableWebhook,
  listWebhooks,
  readWebhook,
  rotateWebhookSecret,
} from '../../services/events/webhooks.ts';
import { requireUserId } from '../../services/identity/access.ts';
import { operation, operations, others, own } from '../operation.ts';
import { pageQuery } from '../request/list-query.ts';
import type { RouteContext } from './context.ts';

const webhook = { 200: WebhookSchema };
const webhookList = {
  description: 'With their state. No list shows a secret.',
  responses: { 200: Type.Array(WebhookSchema) },
};

/** URLs that a user registers to receive events. Operators list, disable and enable those of all users. */
export const webhookOperations = (context: RouteContext) =>
  operations('webhooks', {
    listWebhooks: operation({
      route: 'GET /webhooks/',
      access: own('webhooks.read'),
      summary: 'List your webhooks',
      ...webhookList,
      handler: ({ caller }) => listWebhooks(context, caller.userId),
    }),
    createWebhook: operation({
      route: 'POST /webhooks/',
      access: own('webhooks.write'),
      summary: 'Create a webhook',
      description: 'Events are sent to its URL, signed as in Standard Webhooks. Only this response shows the secret.',
      body: WebhookBody,
      noStore: true,
      responses: { 201: WebhookWithSecretSchema },
      handler: ({ caller, body, idempotency }) => createWebhook(context, caller.userId, body, idempotency),
    }),
    getWebhook: operation({
      route: 'GET /webhooks/{webhook_id}/',
      access: own('webhooks.read'),
      summary: 'Read one webhook',
      description: 'Shows whether deliveries fail, and why the webhook was disabled.',
      responses: webhook,
      handler: ({ caller, params }) => readWebhook(context, caller.userId, params.webhook_id),
    }),
    changeWebhook: operation({
      route: 'PATCH /webhooks/{webhook_id}/',
      access: own('webhooks.write'),
      summary: 'Change a webhook or enable it again',
      description:
        'Fields that the body omits stay as they are. A webhook that an administrator has disabled cannot be changed.',
      body: WebhookChangeBody,
      responses: webhook,
      handler: ({ caller, params, body }) => changeWebhook(context, caller.userId, params.webhook_id, body),
    }),
    deleteWebhook: operation({
      route: 'DELETE /webhooks/{webhook_id}/',
      access: own('webhooks.write'),
      summary: 'Delete a webhook',
      description: 'Returns the webhook as it was. A webhook that an administrator has disabled cannot be deleted.',
      responses: webhook,
      handler: ({ caller, params }) => deleteWebhook(context, caller.userId, params.webhook_id),
    }),
    rotateWebhookSecret: operation({
      route: 'POST /webhooks/{webhook_id}/secret/',
      access: own('webhooks.write'),
      summary: 'Replace the secret of a webhook',
      description: 'For one day, deliveries are signed with the old secret too.',
      noStore: true,
      responses: { 200: WebhookWithSecretSchema },
      handler: ({ caller, params, idempotency }) =>
        rotateWebhookSecret(context, caller.userId, params.webhook_id, idempotency),
    }),
    testWebhook: operation({
      route: 'POST /webhooks/{webhook_id}/test/',
      access: own('webhooks.write'),
      summary: 'Send a test delivery',
      description: 'Sends an event of the type `webhook.test`. Read the delivery to see the result.',
      responses: { 202: DeliverySchema },
      handler: ({ caller, params, idempotency }) => testWebhook(context, caller.userId, params.webhook_id, idempotency),
    }),
    listDeliveries: operation({
      route: 'GET /webhooks/{webhook_id}/deliveries/',
      access: own('webhooks.read'),
      summary: 'List deliveries, newest first',
      description: 'With the result of the last attempt. Deliveries are kept as long as their events.',
      query: pageQuery('deliveries', 1000, '100'),
      responses: { 200: Type.Array(DeliverySchema) },
      handler: ({ caller, params, query: { limit = 100, before } }) =>
        listDeliveries(context, caller.userId, params.webhook_id, limit, before),
    }),
    getDelivery: operation({
      route: 'GET /webhooks/{webhook_id}/deliveries/{delivery_id}/',
      access: own('webhooks.read'),
      summary: 'Read one delivery',
      description: 'With the result of the last attempt.',
      responses: { 200: DeliverySchema },
      handler: ({ caller, params }) => readDelivery(context, caller.userId, params.webhook_id, params.delivery_id),
    }),
    resendDelivery: operation({
      route: 'POST /webhooks/{webhook_id}/deliveries/{delivery_id}/send/',
      access: own('webhooks.write'),
      summary: 'Send a delivery again with the same id',
      description: 'The receiver recognizes it by its `webhook-id`.',
      responses: { 202: DeliverySchema },
      handler: ({ caller, params, idempotency }) =>
        resendDelivery(context, caller.userId, params.webhook_id, params.delivery_id, idempotency),
    }),

    listWebhooksOfUser: operation({
      route: 'GET /admin/webhooks/{user_id}/',
      access: others('webhooks.read'),
      summary: 'Webhooks of a user',
      ...webhookList,
      handler: async ({ params }) => listWebhooks(context, await requireUserId(context, params.user_id)),
    }),
    listWebhooksOfAllUsers: operation({
      route: 'GET /admin/webhooks/',
      access: others('webhooks.read'),
      summary: 'Webhooks of all users',
      ...webhookList,
      handler: () => listWebhooks(context),
    }),
    disableWebhook: operation({
      route: 'POST /admin/webhooks/{user_id}/{webhook_id}/disable/',
      access: others('webhooks.write'),
      summary: 'Disable a webhook',
      description: 'Its owner cannot enable, change or delete it.',
      body: ReasonBody,
      responses: webhook,
      handler: async ({ caller, params, body, idempotency }) => {
        const owner = await requireUserId(context, params.user_id);
        return disableWebhook(context, owner, params.webhook_id, body.reason, { actor: caller, idempotency });
      },
    }),
    enableWebhook: operation({
      route: 'POST /admin/webhooks/{user_id}/{webhook_id}/enable/',
      access: others('webhooks.write'),
      summary: 'Enable a webhook again',
      description: 'Whoever has disabled it.',
      body: ReasonBody,
      responses: webhook,
      handler: async ({ caller, params, body, idempotency }) => {
        const owner = await requireUserId(context, params.user_id);
        return enableWebhook(context, owner, params.webhook_id, body.reason, { actor: caller, idempotency });
      },
    }),
  });
