export interface Webhook {
  id: number;
  userId: string;
  url: string;
  description: string;
  /** The kinds of events that the webhook receives; `*` for all. */
  kinds: string[];
  createdAt: number;
  /** The time of the first of the consecutive failed attempts. */
  failingSince: number | null;
  disabledAt: number | null;
  disabledReason: string | null;
  disabledBy: WebhookDisabler | null;
}

/** The delivery of one event to one webhook. */
export interface Delivery {
  id: number;
  /** Null for a test delivery. */
  event: { seq: number; kind: string } | null;
  state: 'pending' | 'delivered' | 'failed';
  createdAt: number;
  dueAt: number;
  tries: number;
  lastAt: number | null;
  lastResult: DeliveryResult | null;
  lastError: string | null;
}

/** The party that disabled a webhook. Only an administrator can enable one that an administrator has disabled. */
export type WebhookDisabler = 'administrator' | 'bursar';

/**
 * The result of an attempt to deliver an event, as its owner sees it. The exact status or error would make webhooks a port
 * scanner that runs on the host of Bursar, so a closed, a filtered and a silent port have the same result. See also
 * `createSender` about its duration.
 */
export const deliveryResults = {
  '2xx': 'the endpoint accepted the event',
  '3xx': 'the endpoint answered with a redirect that is not followed',
  '4xx': 'the endpoint answered with an error',
  '5xx': 'the endpoint answered with an error',
  denied: 'the URL, or the target of a redirect, is not allowed; nothing was sent there',
  unreachable: 'there was no connection, or no HTTP response in time',
} as const;

export type DeliveryResult = keyof typeof deliveryResults;

/** The result of a response with this HTTP status. */
export function toDeliveryResult(status: number): DeliveryResult {
  const result = `${Math.floor(status / 100)}xx`;
  return Object.hasOwn(deliveryResults, result) ? (result as DeliveryResult) : 'unreachable';
}
