import assert from 'node:assert/strict';
import type { Config } from '../../src/config/schema.ts';
import type { ApiResponse, Caller } from './api.ts';
import { shippedConfig } from './shipped-config.ts';
import { until } from './until.ts';

export interface Webhook {
  id: number;
  user: string;
  url: string;
  description: string;
  events: string[];
  active: boolean;
  created_at: string;
  failing_since: string | null;
  disabled_at: string | null;
  disabled_reason: string | null;
  disabled_by: 'administrator' | 'bursar' | null;
  /** Only in the responses to creation and rotation. */
  secret?: string;
}

export interface Delivery {
  id: number;
  message_id: string;
  event: number | null;
  type: string;
  state: 'pending' | 'delivered' | 'failed';
  created_at: string;
  tries: number;
  next_try_at: string | null;
  last_try_at: string | null;
  last_result: string | null;
  last_error: string | null;
}

/** The shipped configuration, with webhooks to this host allowed. */
export function webhookConfig(overrides: Partial<Config['webhooks']> = {}) {
  return { ...shippedConfig(), webhooks: { allowNetworks: ['127.0.0.0/8'], allowHttp: true, ...overrides } };
}

/** Short retry delays. */
export const webhookTuning = {
  eventIntervalMs: 100,
  webhookTimeoutMs: 30_000,
  webhookRetrySeconds: [0.1, 0.1, 0.2, 0.2],
};

const jsonHeaders = { 'content-type': 'application/json' };

export async function sendJson<T>(
  caller: Caller,
  method: string,
  path: string,
  body?: unknown,
): Promise<ApiResponse<T>> {
  const response =
    body === undefined ? caller.send(method, path) : caller.send(method, path, jsonHeaders, JSON.stringify(body));
  return (await response) as ApiResponse<T>;
}

export async function registerWebhook(caller: Caller, url: string, events = ['*']): Promise<Required<Webhook>> {
  const { status, body, text } = await sendJson<Required<Webhook>>(caller, 'POST', '/webhooks/', { url, events });
  assert.equal(status, 201, text);
  return body;
}

export async function getWebhook(caller: Caller, { id }: Pick<Webhook, 'id'>): Promise<Webhook> {
  return (await caller.get<Webhook>(`/webhooks/${id}/`)).body;
}

export async function listDeliveries(caller: Caller, { id }: Pick<Webhook, 'id'>): Promise<Delivery[]> {
  return (await caller.get<Delivery[]>(`/webhooks/${id}/deliveries/`)).body;
}

/** Requests a test event, and waits until it is delivered or has finally failed. */
export async function sendTestEvent(
  caller: Caller,
  webhook: Pick<Webhook, 'id'>,
  timeoutSeconds = 60,
): Promise<Delivery> {
  const { status, body, text } = await sendJson<Delivery>(caller, 'POST', `/webhooks/${webhook.id}/test/`);
  assert.equal(status, 202, text);
  return await waitForDelivery(caller, webhook, body, timeoutSeconds);
}

/** Waits until a delivery is delivered or has finally failed. */
export async function waitForDelivery(
  caller: Caller,
  webhook: Pick<Webhook, 'id'>,
  delivery: Delivery,
  timeoutSeconds = 60,
): Promise<Delivery> {
  const path = `/webhooks/${webhook.id}/deliveries/${delivery.id}/`;
  const poll = async () => {
    const { body } = await caller.get<Delivery>(path);
    return body.state === 'pending' ? undefined : body;
  };
  return await until(`delivery ${delivery.id} is delivered or has failed`, poll, timeoutSeconds);
}
