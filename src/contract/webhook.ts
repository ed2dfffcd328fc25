import Type, { type Static } from 'typebox';
import { eventKinds } from '../domain/event.ts';
import { toIsoTime } from './json-format.ts';

const nullableTime = (description: string) => Type.Union([Type.String(), Type.Null()], { description });
const url = Type.String({ description: 'Where events are sent to.', examples: ['https://example.org/bursar'] });
const kinds = ['*', ...Object.keys(eventKinds)];
const events = Type.Array(Type.Enum(kinds), { minItems: 1, maxItems: 50, description: 'Which types; `*` for all.' });
const description = Type.String({ maxLength: 200, description: 'For yourself.' });

const webhookFields = {
  id: Type.Integer(),
  user: Type.String({ description: 'Whose it is.' }),
  url,
  description,
  events: Type.Array(Type.String(), { description: 'Which types of events it gets; `*` for all.' }),
  active: Type.Boolean({ description: 'False once it has been disabled.' }),
  created_at: Type.String(),
  failing_since: nullableTime('Since when nothing has been delivered although it was tried.'),
  disabled_at: nullableTime('When it was disabled.'),
  disabled_reason: nullableTime('Why.'),
};

/** An address that events are sent to. */
export const WebhookSchema = Type.Object(webhookFields, { $id: 'Webhook', additionalProperties: false });

/** The same at the only moments at which its secret can be seen. */
export const WebhookWithSecretSchema = Type.Object(
  {
    ...webhookFields,
    secret: Type.String({ description: 'Signs deliveries, as in Standard Webhooks. It is shown this once.' }),
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
    active: Type.Optional(
      Type.Literal(true, { description: 'Lets events go to a webhook again that has been disabled.' }),
    ),
  },
  { additionalProperties: false, minProperties: 1 },
);

/** One event on its way to a webhook, and what became of it. */
export const DeliverySchema = Type.Object(
  {
    id: Type.Integer(),
    message_id: Type.String({ description: 'The header `webhook-id`, the same for every attempt.' }),
    event: Type.Union([Type.Integer(), Type.Null()], { description: 'The id of the event; null for a test.' }),
    type: Type.String({ description: 'The type of the event, or `webhook.test`.' }),
    state: Type.Enum(['pending', 'delivered', 'failed']),
    created_at: Type.String(),
    tries: Type.Integer({ description: 'Attempts so far.' }),
    next_try_at: nullableTime('Not before then; null when there will be no other attempt.'),
    last_try_at: nullableTime('When it was tried last.'),
    last_status: Type.Union([Type.Integer(), Type.Null()], { description: 'What the receiver answered last.' }),
    last_error: nullableTime('What went wrong last.'),
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

const timeOrNull = (epochMs: number | null) => (epochMs === null ? null : toIsoTime(epochMs));

export function publicWebhook(webhook: WebhookFields): Static<typeof WebhookSchema> {
  return {
    id: webhook.id,
    user: webhook.userId,
    url: webhook.url,
    description: webhook.description,
    events: webhook.kinds,
    active: webhook.disabledAt === null,
    created_at: toIsoTime(webhook.createdAt),
    failing_since: timeOrNull(webhook.failingSince),
    disabled_at: timeOrNull(webhook.disabledAt),
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
    last_try_at: timeOrNull(delivery.lastAt),
    last_status: delivery.lastStatus,
    last_error: delivery.lastError,
  };
}

/** What a receiver recognises a repeated delivery by. */
export function toMessageId(deliveryId: number): string {
  return `msg_${deliveryId}`;
}

/** An event that never happened. */
export function toTestEventJson(webhookId: number, at: number): string {
  return JSON.stringify({ id: 0, type: testType, at: toIsoTime(at), job: null, data: { webhook_id: webhookId } });
}
