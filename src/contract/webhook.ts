import Type, { type Static } from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { nullableInteger, nullableString } from './fields.ts';
import { toIsoTime, toIsoTimeOrNull } from './json-format.ts';

const url = Type.String({ description: 'URL that receives the events.', examples: ['https://example.org/bursar'] });
const kinds = ['*', ...Object.keys(eventKinds)];
const events = Type.Array(Type.Enum(kinds), { minItems: 1, maxItems: 50, description: 'Event types; `*` for all.' });
const description = Type.String({ maxLength: 200, description: 'Free text for your own use.' });

const webhookFields = {
  id: Type.Integer(),
  user: Type.String({ description: 'User identifier of the owner.' }),
  url,
  description,
  events: Type.Array(Type.String(), { description: 'Event types; `*` for all.' }),
  active: Type.Boolean({ description: 'False if the webhook is disabled.' }),
  created_at: Type.String(),
  failing_since: nullableString('Since when all attempts have failed; null if the last one succeeded.'),
  disabled_at: nullableString('When the webhook was disabled.'),
  disabled_reason: nullableString('Why the webhook was disabled.'),
};

export const WebhookSchema = Type.Object(webhookFields, { $id: 'Webhook', additionalProperties: false });

/** The response to a request that creates or rotates the secret. No other response contains it. */
export const WebhookWithSecretSchema = Type.Object(
  {
    ...webhookFields,
    secret: Type.String({
      description: 'Signs deliveries as specified by Standard Webhooks. No later response shows it again.',
    }),
  },
  { $id: 'WebhookWithSecret', additionalProperties: false },
);

export const WebhookBody = Type.Object(
  { url, events, description: Type.Optional(description) },
  { additionalProperties: false },
);

export const WebhookChangeBody = Type.Object(
  {
    url: Type.Optional(url),
    events: Type.Optional(events),
    description: Type.Optional(description),
    active: Type.Optional(Type.Literal(true, { description: 'Enables a disabled webhook again.' })),
  },
  { additionalProperties: false, minProperties: 1 },
);

/** The delivery of one event to one webhook. */
export const DeliverySchema = Type.Object(
  {
    id: Type.Integer(),
    message_id: Type.String({ description: 'Value of the header `webhook-id`, the same in every attempt.' }),
    event: nullableInteger('Id of the event; null for a test.'),
    type: Type.String({ description: 'Type of the event, or `webhook.test`.' }),
    state: Type.Enum(['pending', 'delivered', 'failed']),
    created_at: Type.String(),
    tries: Type.Integer({ description: 'Number of attempts.' }),
    next_try_at: nullableString('Earliest time of the next attempt; null if there is none.'),
    last_try_at: nullableString('Time of the last attempt.'),
    last_status: nullableInteger('HTTP status of the last response.'),
    last_error: nullableString('Error of the last attempt.'),
  },
  { $id: 'Delivery', additionalProperties: false },
);

export interface WebhookFields {
  id: number;
  userId: string;
  url: string;
  description: string;
  kinds: string[];
  createdAt: number;
  failingSince: number | null;
  disabledAt: number | null;
  disabledReason: string | null;
}

export function publicWebhook(webhook: WebhookFields): Static<typeof WebhookSchema> {
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
  };
}

export interface DeliveryFields {
  id: number;
  event: { seq: number; kind: string } | null;
  state: 'pending' | 'delivered' | 'failed';
  createdAt: number;
  dueAt: number;
  tries: number;
  lastAt: number | null;
  lastStatus: number | null;
  lastError: string | null;
}

const testType = 'webhook.test';

export function publicDelivery(delivery: DeliveryFields): Static<typeof DeliverySchema> {
  return {
    id: delivery.id,
    message_id: toMessageId(delivery.id),
    event: delivery.event?.seq ?? null,
    type: delivery.event?.kind ?? testType,
    state: delivery.state,
    created_at: toIsoTime(delivery.createdAt),
    tries: delivery.tries,
    next_try_at: delivery.state === 'pending' ? toIsoTime(delivery.dueAt) : null,
    last_try_at: toIsoTimeOrNull(delivery.lastAt),
    last_status: delivery.lastStatus,
    last_error: delivery.lastError,
  };
}

/** The value of `webhook-id`, by which a receiver recognizes repeated deliveries. */
export function toMessageId(deliveryId: number): string {
  return `msg_${deliveryId}`;
}

/** The event that a webhook test sends. */
export function toTestEventJson(webhookId: number, at: number): string {
  return JSON.stringify({ id: 0, type: testType, at: toIsoTime(at), job: null, data: { webhook_id: webhookId } });
}
