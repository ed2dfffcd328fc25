import { toEventJson } from '../contract/event.ts';
import { toMessageId, toTestEventJson } from '../contract/webhook.ts';
import { msPerMinute } from '../domain/units.ts';
import type { Metrics } from '../metrics/metrics.ts';
import type { Db, Tx } from '../store/database/handle.ts';
import { inTransaction } from '../store/database/transaction.ts';
import {
  type LeasedDelivery,
  leaseDelivery,
  listDeliveryQueues,
  pauseWebhook,
  postponeDelivery,
  recordAttempt,
  recordWebhookFailure,
  resetWebhookFailures,
} from '../store/events/delivery-queue.ts';
import { insertEvent } from '../store/events/events.ts';
import { disableWebhook, lockUserOfWebhooks, validGenerations } from '../store/events/webhooks.ts';
import type { Span, Tracing } from '../tracing/tracing.ts';
import { endpointPauseMs, retryDelayMs } from '../webhooks/retry-schedule.ts';
import { deriveSecret, type SecretKey, signedHeaders } from '../webhooks/secrets.ts';
import type { AttemptResult, SendRequest } from '../webhooks/send.ts';
import { type Logger, type Loop, startLoop } from './loop.ts';

export interface WebhookWorkerDeps {
  db: Db;
  send: SendRequest;
  secretKey: SecretKey;
  leaseOwner: string;
  /** Must be longer than an attempt can take. */
  leaseMs: number;
  /** Maximum number of webhooks that are served at the same time. */
  concurrency: number;
  /** Interval at which deliveries that other processes stored are polled. */
  pollMs: number;
  retrySeconds: readonly number[];
  /** A webhook is disabled after failing for this long without a success. */
  disableAfterMs: number;
  /** Called after a commit that concerns a user. */
  publish(userId: string): void;
  metrics: Pick<Metrics, 'increment'>;
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  now(): number;
  log: Logger;
}

const httpGone = 410;
/** Deliveries whose secrets are derived from another key wait for this long. */
const otherKeyPauseMs = msPerMinute;

/**
 * Delivers events to webhooks: at least once, always under the same message id, one at a time for each webhook and the oldest
 * first. An interrupted delivery is repeated when its lease has expired. An endpoint that is slow or down occupies only one
 * of the concurrent slots, and is paused after repeated failures.
 */
export function startWebhookWorker(deps: WebhookWorkerDeps): Loop {
  const { db, leaseOwner, leaseMs, concurrency, pollMs, now, log } = deps;
  const inProgress = new Map<number, Promise<void>>();

  const loop = startLoop(async (signal) => {
    try {
      const queues = (await listDeliveryQueues(db)).filter(({ webhookId }) => !inProgress.has(webhookId));
      const earliestFirst = queues.toSorted((a, b) => a.readyAt - b.readyAt);
      for (const { webhookId, readyAt } of earliestFirst) {
        if (readyAt > now()) return Math.min(pollMs, readyAt - now());
        // A delivery is leased only when it can be sent at once: its lease would expire while it waited.
        if (inProgress.size >= concurrency) return pollMs;
        const lease = { owner: leaseOwner, now: now(), until: now() + leaseMs };
        const delivery = await leaseDelivery(db, webhookId, lease);
        if (delivery === undefined) continue;
        const delivered = deliver(deps, delivery, signal).finally(() => {
          inProgress.delete(webhookId);
          loop.wake();
        });
        inProgress.set(webhookId, delivered);
      }
    } catch (error) {
      log.error({ err: error }, 'reading webhook deliveries failed, will retry');
    }
    return pollMs;
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      await Promise.all(inProgress.values());
    },
  };
}

/**
 * Never throws: a delivery that fails here is retried when its lease has expired. If the signal is aborted, because this server
 * stops, the delivery is sent again after the next start, and this attempt is not counted.
 */
async function deliver(deps: WebhookWorkerDeps, delivery: LeasedDelivery, signal: AbortSignal): Promise<void> {
  const { send, metrics, now, log } = deps;
  const { id, event, webhook } = delivery;
  const logFields = { delivery: id, webhook: webhook.id };
  try {
    const body = event === null ? toTestEventJson(webhook.id, delivery.createdAt) : toEventJson(event);
    const secrets = await findSecrets(deps, delivery);
    if (secrets === undefined) return;
    const message = { id: toMessageId(id), timestamp: Math.floor(now() / 1000), body };
    const span = startDeliverySpan(deps, delivery);
    const headers = { ...signedHeaders(message, secrets), ...(span && { traceparent: span.traceParent }) };
    const result = await send(webhook.url, headers, body, signal);
    if (!result.ok && signal.aborted) return await postpone(deps, delivery, now());
    span?.end({ hasFailed: !result.ok, attributes: { 'bursar.result': result.result } });
    metrics.increment('bursar_webhook_attempts_total', { outcome: result.ok ? 'delivered' : 'failed' });
    if (!result.ok) log.info({ ...logFields, detail: result.detail }, 'webhook attempt failed');
    const isDisabled = await storeResult(deps, delivery, result);
    if (isDisabled) {
      log.warn(logFields, 'webhook disabled');
      deps.publish(webhook.userId);
    }
  } catch (error) {
    log.error({ err: error, ...logFields }, 'webhook delivery failed, will retry when its lease has expired');
  }
}

/** A delivery about a job belongs to the trace of its submission. */
function startDeliverySpan(
  { tracing }: WebhookWorkerDeps,
  { id, event, tries, traceParent }: LeasedDelivery,
): Span | null {
  if (tracing === null || traceParent === null) return null;
  const attributes = { 'bursar.event': event?.kind ?? '', 'bursar.delivery': id, 'bursar.try': tries };
  return tracing.startSpan('webhook delivery', { kind: 'client', parent: traceParent, attributes });
}

/**
 * If the key was replaced, the delivery waits until the old one is back or the owner has replaced the secret. Neither the attempts
 * nor the failures of the webhook are counted.
 */
async function findSecrets(deps: WebhookWorkerDeps, delivery: LeasedDelivery): Promise<string[] | undefined> {
  const { secretKey, now, log } = deps;
  const { id: webhookId, createdAt, keyId } = delivery.webhook;
  if (keyId === secretKey.id)
    return validGenerations(delivery.webhook, now()).map((generation) =>
      deriveSecret(secretKey, { webhookId, createdAt, generation }),
    );
  log.error({ webhook: webhookId }, 'webhook secret is of another key, its deliveries wait');
  await postpone(deps, delivery, now() + otherKeyPauseMs);
  return undefined;
}

async function postpone({ db, leaseOwner }: WebhookWorkerDeps, delivery: LeasedDelivery, until: number): Promise<void> {
  await inTransaction(db, (tx) => postponeDelivery(tx, delivery, { leaseOwner, until }));
}

/** Returns whether the webhook has been disabled. */
async function storeResult(deps: WebhookWorkerDeps, delivery: LeasedDelivery, result: AttemptResult): Promise<boolean> {
  const { db, leaseOwner, retrySeconds } = deps;
  const now = deps.now();
  const delayMs = result.ok ? null : retryDelayMs(delivery.tries, retrySeconds);
  const retryAt = delayMs === null ? null : now + delayMs;
  const { error } = result;
  return await inTransaction(db, async (tx) => {
    // A failure may disable the webhook.
    if (!result.ok) await lockUserOfWebhooks(tx, delivery.webhook.userId);
    if (!(await recordAttempt(tx, delivery.id, { leaseOwner, result: result.result, error, retryAt, now })))
      return false;
    if (!result.ok) return await pauseOrDisable(tx, deps, delivery, result);
    await resetWebhookFailures(tx, delivery.webhook.id);
    return false;
  });
}

/** After a failed attempt. Returns whether the webhook has been disabled. */
async function pauseOrDisable(
  tx: Tx,
  deps: WebhookWorkerDeps,
  { webhook }: LeasedDelivery,
  { status, error }: AttemptResult,
): Promise<boolean> {
  const now = deps.now();
  const failing = await recordWebhookFailure(tx, webhook.id, now);
  if (failing === undefined) return false;
  if (status !== httpGone && now - failing.since < deps.disableAfterMs) {
    await pauseWebhook(tx, webhook.id, now + endpointPauseMs(failing.failures, deps.retrySeconds));
    return false;
  }
  const reason =
    status === httpGone
      ? 'The endpoint answered 410 Gone: it wants no more events.'
      : `The endpoint has failed for too long. ${error ?? ''}`;
  if (!(await disableWebhook(tx, webhook.id, { by: 'bursar', reason, now }))) return false;
  const data = { webhook_id: webhook.id, url: webhook.url, reason };
  await insertEvent(tx, { userId: webhook.userId, job: null, kind: 'webhook.disabled', data, at: now });
  return true;
}
