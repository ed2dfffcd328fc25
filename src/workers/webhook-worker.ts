import { toEventJson } from '../contract/event.ts';
import { toMessageId, toTestEventJson } from '../contract/webhook.ts';
import type { Metrics } from '../metrics/registry.ts';
import type { Db } from '../store/database/tables.ts';
import { inTransaction } from '../store/database/transaction.ts';
import {
  deliveryQueues,
  type LeasedDelivery,
  leaseDelivery,
  pauseWebhook,
  recordAttempt,
  recordFailure,
  recordSuccess,
} from '../store/events/delivery-queue.ts';
import { insertEvent } from '../store/events/events.ts';
import { disableWebhook } from '../store/events/webhooks.ts';
import { pauseMs, retryDelayMs } from '../webhooks/retry-schedule.ts';
import type { Attempt, Send } from '../webhooks/send.ts';
import { signedHeaders } from '../webhooks/signature.ts';
import type { Log } from './log.ts';
import { type Loop, startLoop } from './loop.ts';

export interface WebhookWorkerDeps {
  db: Db;
  send: Send;
  leaseOwner: string;
  /** Longer than an attempt can take. */
  leaseMs: number;
  /** How many receivers are served at a time. */
  atOnce: number;
  /** How often it is looked for what was written by others. */
  checkMs: number;
  retrySeconds: readonly number[];
  /** After how long without any success a webhook is given up. */
  disableAfterMs: number;
  announce(userId: string): void;
  metrics: Pick<Metrics, 'increment'>;
  now(): number;
  log: Log;
}

const gone = 410;

/**
 * Brings events to webhooks: at least once, under the same id, each webhook one at a time and the oldest first. Whatever is
 * interrupted is found again when its lease has run out. A receiver that is slow or down costs one place among many, and
 * that only now and then.
 */
export function startWebhookWorker(deps: WebhookWorkerDeps): Loop {
  const { db, leaseOwner, leaseMs, atOnce, checkMs, now, log } = deps;
  const underWay = new Map<number, Promise<void>>();

  const loop = startLoop(async () => {
    try {
      const queues = (await deliveryQueues(db)).filter(({ webhookId }) => !underWay.has(webhookId));
      const inOrder = queues.toSorted((a, b) => a.readyAt - b.readyAt);
      for (const { webhookId, readyAt } of inOrder) {
        if (readyAt > now()) return Math.min(checkMs, readyAt - now());
        if (underWay.size >= atOnce) return checkMs;
        const lease = { owner: leaseOwner, now: now(), until: now() + leaseMs };
        const delivery = await leaseDelivery(db, webhookId, lease);
        if (delivery === undefined) continue;
        const work = deliver(deps, delivery).finally(() => {
          underWay.delete(webhookId);
          loop.wake();
        });
        underWay.set(webhookId, work);
      }
    } catch (error) {
      log.error({ err: error }, 'looking for deliveries failed');
    }
    return checkMs;
  });
  return {
    wake: loop.wake,
    async stop() {
      await loop.stop();
      await Promise.all(underWay.values());
    },
  };
}

/** Never throws: what fails here is tried again when the lease has run out. */
async function deliver(deps: WebhookWorkerDeps, delivery: LeasedDelivery): Promise<void> {
  const { send, metrics, now, log } = deps;
  const { id, event, secrets, webhook } = delivery;
  const about = { delivery: id, webhook: webhook.id };
  try {
    const body = event === null ? toTestEventJson(webhook.id, delivery.createdAt) : toEventJson(event);
    const message = { id: toMessageId(id), timestamp: Math.floor(now() / 1000), body };
    const attempt = await send(webhook.url, signedHeaders(message, secrets), body);
    metrics.increment('bursar_webhook_attempts_total', { outcome: attempt.ok ? 'delivered' : 'failed' });
    const disabled = await record(deps, delivery, attempt);
    if (disabled) {
      log.warn(about, 'webhook disabled');
      deps.announce(webhook.userId);
    }
  } catch (error) {
    log.error({ err: error, ...about }, 'delivery left to its lease');
  }
}

/** True when this was the end of the webhook. */
async function record(deps: WebhookWorkerDeps, delivery: LeasedDelivery, attempt: Attempt): Promise<boolean> {
  const { db, leaseOwner, retrySeconds } = deps;
  const now = deps.now();
  const delayMs = attempt.ok ? null : retryDelayMs(delivery.tries, retrySeconds);
  const retryAt = delayMs === null ? null : now + delayMs;
  const { status, error } = attempt;
  return await inTransaction(db, async (tx) => {
    if (!(await recordAttempt(tx, delivery.id, { leaseOwner, status, error, retryAt, now }))) return false;
    if (!attempt.ok) return await handleFailure(tx, deps, delivery, attempt);
    await recordSuccess(tx, delivery.webhook.id);
    return false;
  });
}

async function handleFailure(tx: Db, deps: WebhookWorkerDeps, { webhook }: LeasedDelivery, { status, error }: Attempt) {
  const now = deps.now();
  const run = await recordFailure(tx, webhook.id, now);
  if (run === undefined) return false;
  if (status !== gone && now - run.since < deps.disableAfterMs) {
    await pauseWebhook(tx, webhook.id, now + pauseMs(run.failures, deps.retrySeconds));
    return false;
  }
  const reason = status === gone ? 'It answered 410: it wants no more.' : `It has failed for too long. ${error ?? ''}`;
  if (!(await disableWebhook(tx, webhook.id, reason, now))) return false;
  const data = { webhook_id: webhook.id, url: webhook.url, reason };
  await insertEvent(tx, { userId: webhook.userId, job: null, kind: 'webhook.disabled', data, at: now });
  return true;
}
