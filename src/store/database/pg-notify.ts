import { randomUUID } from 'node:crypto';
import { sql } from 'kysely';
import type { Client } from 'pg';
import { type DatabaseSettings, postgresSettings } from './database.ts';
import type { Db } from './handle.ts';
import { openClient } from './postgres.ts';

const channel = 'bursar';
const againMs = 1000;
/** Word that comes up within this time goes out together. */
const gatherMs = 5;

export interface PgNotify {
  notify(topic: string, name: string): void;
  onNotification(listener: (topic: string, name: string) => void): void;
  close(): Promise<void>;
}

/**
 * Passes word between all Bursars on one PostgreSQL, by its LISTEN and NOTIFY. While the database is away nothing is
 * passed on, and nothing is kept for later: word is only a hint.
 */
export function openPgNotify(db: Db, settings: DatabaseSettings): PgNotify {
  const self = randomUUID();
  const listeners: ((topic: string, name: string) => void)[] = [];
  const waiting = new Set<string>();
  let sending: NodeJS.Timeout | undefined;
  let closed = false;
  let client: Client | undefined;
  let again: NodeJS.Timeout | undefined;

  function hear(payload: string): void {
    const [from, topic = '', name = ''] = payload.split(' ', 3);
    if (from === self) return;
    for (const listener of listeners) listener(topic, name);
  }

  async function listen(): Promise<void> {
    try {
      client = await openClient(postgresSettings(settings));
      client.on('notification', ({ payload }) => hear(payload ?? ''));
      client.on('end', listenAgain);
      await client.query(`listen ${channel}`);
    } catch {
      listenAgain();
    }
  }

  function listenAgain(): void {
    client?.end().catch(() => undefined);
    client = undefined;
    if (closed || again !== undefined) return;
    again = setTimeout(() => {
      again = undefined;
      listening = listen();
    }, againMs);
  }

  async function flush(): Promise<void> {
    sending = undefined;
    const words = [...waiting];
    waiting.clear();
    await sendNotifications(db, words, self).catch(() => undefined);
  }

  let listening = listen();
  return {
    notify(topic, name) {
      if (closed) return;
      waiting.add(`${topic} ${name}`);
      sending ??= setTimeout(flush, gatherMs);
    },
    onNotification: (listener) => {
      listeners.push(listener);
    },
    async close() {
      closed = true;
      clearTimeout(sending);
      clearTimeout(again);
      await listening;
      await client?.end().catch(() => undefined);
    },
  };
}

/** Passes word (topic and name) on to all who listen; on a database that nobody else can be on, it does nothing. */
export async function sendNotifications(db: Db, words: readonly string[], from = '-'): Promise<void> {
  if (db.backend.dialect.name !== 'postgres') return;
  const notices = sql.join(words.map((word) => sql`pg_notify(${channel}, ${`${from} ${word}`})`));
  await sql`select ${notices}`.execute(db);
}
