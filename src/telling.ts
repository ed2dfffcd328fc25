import type { Logger } from 'pino';
import type { Config } from './config/schema.ts';
import { startCourier } from './lifecycle/courier.ts';
import type { Metrics } from './metrics/registry.ts';
import type { Announcements } from './services/announcements.ts';
import { createEventFeed } from './services/event-feed.ts';
import { followEvents, pollEvents, startingPoint } from './services/read-events.ts';
import { webhookDesk } from './services/webhooks.ts';
import type { Db } from './store/tables.ts';
import { createResolver } from './webhooks/resolve.ts';
import { createSender } from './webhooks/send.ts';

export interface TellingDeps {
  /** Whether this process brings events to webhooks. */
  sendsWebhooks: boolean;
  db: Db;
  announcements: Announcements;
  /** Names this process in leases. */
  leaseOwner: string;
  userAgent: string;
  metrics: Pick<Metrics, 'count'>;
  now(): number;
  log: Logger;
}

/** All that tells users what happens, by the configuration: streams and pages of events, and webhooks. */
export function startTelling({ events, webhooks }: Pick<Config, 'events' | 'webhooks'>, deps: TellingDeps) {
  const { db, announcements, leaseOwner, userAgent, metrics, now, log } = deps;
  const checkMs = events.checkSeconds * 1000;
  const announce = announcements.wake;
  const feed = createEventFeed({ db, announcements, checkMs, listenersPerUser: events.listenersPerUser, log });
  const reading = { db, feed };

  const resolve = createResolver(webhooks);
  const timeoutMs = webhooks.timeoutSeconds * 1000;
  const courier = deps.sendsWebhooks
    ? startCourier({
        db,
        send: createSender({ rules: webhooks, resolve, timeoutMs, userAgent }),
        leaseOwner,
        leaseMs: 2 * timeoutMs + 1000,
        atOnce: webhooks.atOnce,
        checkMs,
        retrySeconds: webhooks.retrySeconds,
        disableAfterMs: webhooks.disableAfterHours * 3_600_000,
        announce,
        metrics,
        now,
        log,
      })
    : undefined;
  announcements.onWake(() => courier?.wake());

  return {
    services: {
      heartbeatMs: events.heartbeatSeconds * 1000,
      startingPoint: startingPoint.bind(null, reading),
      followEvents: followEvents.bind(null, reading),
      pollEvents: pollEvents.bind(null, reading),
      ...webhookDesk({ db, rules: webhooks, resolve, mostPerUser: webhooks.perUser, now, announce }),
    },
    async stop() {
      await feed.stop();
      await courier?.stop();
    },
  };
}
