import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { chunks } from '../../domain/chunks.ts';
import { type DatabaseSettings, toPostgresSettings } from './database.ts';
import type { Db } from './handle.ts';
import { openClient } from './postgres.ts';

const channel = 'bursar';
const reconnectDelayMs = 1000;
/** Notifications that arrive within this time are sent by one statement, and duplicates among them once. */
const batchDelayMs = 5;

export interface PgNotify {
  notify(topic: string, name: string): void;
  /** Registers a listener for the notifications of other instances. */
  onNotification(listener: (topic: string, name: string) => void): void;
  close(): Promise<void>;
}

/**
 * Broadcasts hints between instances by LISTEN/NOTIFY. Delivery is best effort: hints sent while the connection is down
 * are dropped. Resolves when it listens, or has failed to: an instance that serves hears of every revoked access.
 */
export async function openPgNotify(db: Db, settings: DatabaseSettings): Promise<PgNotify> {
  const senderId = randomUUID();
  const listeners: ((topic: string, name: string) => void)[] = [];
  const queued = new Set<string>();
  let flushTimer: NodeJS.Timeout | undefined;
  let isClosed = false;
  let client: Client | undefined;
  let reconnectTimer: NodeJS.Timeout | undefined;

  function receive(payload: string): void {
    const [sender, topic = '', name = ''] = payload.split(' ', 3);
    if (sender === senderId) return;
    for (const listener of listeners) listener(topic, name);
  }

  async function listen(): Promise<void> {
    try {
      client = await openClient(toPostgresSettings(settings));
      client.on('notification', ({ payload }) => receive(payload ?? ''));
      client.on('end', reconnectLater);
      await client.query(`listen ${channel}`);
    } catch {
      reconnectLater();
    }
  }

  function reconnectLater(): void {
    client?.end().catch(() => undefined);
    client = undefined;
    if (isClosed || reconnectTimer !== undefined) return;
    reconnectTimer = setTimeout(() => {
      reconnectTimer = undefined;
      listening = listen();
    }, reconnectDelayMs);
  }

  async function flush(): Promise<void> {
    flushTimer = undefined;
    const notifications = [...queued];
    queued.clear();
    for (const chunk of chunks(notifications)) {
      const calls = chunk.map((notification) => sql`pg_notify(${channel}, ${`${senderId} ${notification}`})`);
      await sql`select ${sql.join(calls)}`.execute(db).catch(() => undefined);
    }
  }

  let listening = listen();
  await listening;
  return {
    notify(topic, name) {
      if (isClosed) return;
      queued.add(`${topic} ${name}`);
      flushTimer ??= setTimeout(flush, batchDelayMs);
    },
    onNotification: (listener) => {
      listeners.push(listener);
    },
    async close() {
      isClosed = true;
      clearTimeout(flushTimer);
      clearTimeout(reconnectTimer);
      await listening;
      await client?.end().catch(() => undefined);
    },
  };
}
