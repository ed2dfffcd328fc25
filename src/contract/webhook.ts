import Type, { type Static } from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { type Delivery, deliveryResults, type Webhook } from '../domain/webhook.ts';
import { EventTypeSchema, testEventType } from './event.ts';
import { namedObject, nullable, requestBody, time, timestamp, toIsoTime, toIsoTimeOrNull } from './fields.ts';

const url = Type.String({ description: 'URL that receives the events.', examples: ['https://example.org/bursar'] });
const kinds = ['*', ...Object.keys(eventKinds)];
const events = Type.Array(Type.Enum(kinds), { minItems: 1, maxItems: 50, description: 'Event types; `*` for all.' });
const description = Type.String({ maxLength: 200, description: 'Free text for your own use.' });

const webhookFields = {
  id: Type.Integer(),
  user: Type.String({ description: 'User identifier of the owner.' }),
  url,
  description,
  events,
  active: Type.Boolean({ description: 'False if the webhook is disabled.' }),
  created_at: timestamp,
  failing_since: nullable(time, 'Since when all attempts have failed; null if the last one succeeded.'),
  disabled_at: nullable(time, 'When the webhook was disabled.'),
  disabled_reason: nullable(Type.String(), 'Why the webhook was disabled.'),
  disabled_by: nullable(
    Type.Enum(['administrator', 'bursar']),
    '`administrator` or `bursar`, if the webhook is disabled. You can enable it again, unless an administrator has disabled it.',
  ),
};

const exampleWebhook = {
  id: 1,
  user: '301330',
  url: 'https://example.org/bursar',
  description: 'Reports of finished jobs',
  events: ['job.ended'],
  active: true,
};

export const WebhookSchema = namedObject('Webhook', webhookFields, exampleWebhook);

/** The response to a request that creates or rotates the secret. No other response contains it. */
export const WebhookWithSecretSchema = namedObject(
  'WebhookWithSecret',
  {
    ...webhookFields,
    secret: Type.String({
      description: 'Signs deliveries as specified by Standard Webhooks. No later response shows it again.',
    }),
  },
  { ...exampleWebhook, secret: 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw' },
);

export const WebhookBody = requestBody(
  { url, events, description: Type.Optional(description) },
  { url: 'https://example.org/bursar', events: ['job.ended'] },
);

export const WebhookChangeBody = Type.Object(
  {
    url: Type.Optional(url),
    events: Type.Optional(events),
    description: Type.Optional(description),
    active: Type.Optional(
      Type.Literal(true, { description: 'Enables a webhook again that Bursar has disabled, not an administrator.' }),
    ),
  },
  { additionalProperties: false, minProperties: 1, examples: [{ active: true }] },
);

/** The delivery of one event to one webhook. */
export const DeliverySchema = namedObject(
  'Delivery',
  {
    id: Type.Integer(),
    message_id: Type.String({ description: 'Value of the header `webhook-id`, the same in every attempt.' }),
    event: nullable(Type.Integer(), 'Id of the event; null for a test.'),
    type: EventTypeSchema,
    state: Type.Enum(['pending', 'delivered', 'failed']),
    created_at: timestamp,
    tries: Type.Integer({ description: 'Number of attempts.' }),
    next_try_at: nullable(time, 'Earliest time of the next attempt; null if there is none.'),
    last_try_at: nullable(time, 'Time of the last attempt.'),
    last_result: nullable(
      Type.Enum(Object.keys(deliveryResults)),
      `Result of the last attempt. ${Object.entries(deliveryResults)
        .map(([result, meaning]) => `\`${result}\`: ${meaning}.`)
        .join(' ')}`,
    ),
    last_error: nullable(Type.String(), 'Error of the last attempt.'),
  },
  {
    id: 3,
    message_id: 'msg_3',
    event: 7,
    type: 'job.ended',
    state: 'delivered',
    tries: 1,
    last_try_at: '2026-01-31T12:00:01.000Z',
    last_result: '2xx',
  },
);

export function publicWebhook(webhook: Webhook): Static<typeof WebhookSchema> {
  return {
    id: webhook.id,
    user: webhook.userId,
    url: webhook.url,
    description: webhook.description,
    events: webhook.kinds,
    active: webhook.disabledAt === null,
    created_at: toIsoTime(webhook.createdAt),
    failing_since: toIsoTimeOrNull(webhook.failingSince),
    disabled_at: toIsoTimeOrNull(webhook.disabledAt),
    disabled_reason: webhook.disabledReason,
    disabled_by: webhook.disabledBy,
  };
}

export function publicDelivery(delivery: Delivery): Static<typeof DeliverySchema> {
  return {
    id: delivery.id,
    message_id: toMessageId(delivery.id),
    event: delivery.event?.seq ?? null,
    type: delivery.event?.kind ?? testEventType,
    state: delivery.state,
    created_at: toIsoTime(delivery.createdAt),
    tries: delivery.tries,
    next_try_at: delivery.state === 'pending' ? toIsoTime(delivery.dueAt) : null,
    last_try_at: toIsoTimeOrNull(delivery.lastAt),
    last_result: delivery.lastResult,
    last_error: delivery.lastError,
  };
}

/** The value of `webhook-id`, by which a receiver recognizes repeated deliveries. */
export function toMessageId(deliveryId: number): string {
  return `msg_${deliveryId}`;
}

/** The event that a webhook test sends. */
export function toTestEventJson(webhookId: number, at: number): string {
  return JSON.stringify({ id: 0, type: testEventType, at: toIsoTime(at), job: null, data: { webhook_id: webhookId } });
}
