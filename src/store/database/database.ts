import { resolve } from 'node:path';
import { parseDatabaseUrl } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import { checkServer } from './check-server.ts';
import type { Db } from './handle.ts';
import { applyMigrations, listMigrations } from './migrations.ts';
import { type DatabaseObserver, noObserver } from './observer.ts';
import { openPostgres, type PostgresSettings } from './postgres.ts';
import { requireExpectedSchema } from './schema-check.ts';
import { openSqlite } from './sqlite.ts';

export interface DatabaseSettings {
  url: string;
  /** The rest applies to PostgreSQL. Maximum number of connections; default 1. */
  connections?: number;
  /** To connect, or to wait for a free connection. */
  connectTimeoutMs?: number;
  /** Of one statement, waits for locks included. 0 for no limit. */
  statementTimeoutMs?: number;
}

export const defaultTimeouts = { connectTimeoutMs: 10_000, statementTimeoutMs: 30_000 };

/** Opens the database and migrates its schema to the latest version. Errors say what to do. */
export async function openDatabase(
  settings: DatabaseSettings,
  dataFolder: string,
  observer: DatabaseObserver = noObserver,
): Promise<Db> {
  const db = connectDatabase(settings, dataFolder, observer);
  try {
    await checkServer(db, settings.url);
    if ((await listMigrations(db)).pending.length > 0) await migrateDatabase(settings, dataFolder);
    await requireExpectedSchema(db);
    return db;
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

/** A migration may change every row of a large table, so its statements have no time limit. */
async function migrateDatabase(settings: DatabaseSettings, dataFolder: string): Promise<void> {
  const db = connectDatabase({ ...settings, statementTimeoutMs: 0 }, dataFolder);
  try {
    await applyMigrations(db);
  } finally {
    await db.destroy();
  }
}

/** Opens the database without migrating it. PostgreSQL is contacted by the first query. */
export function connectDatabase(
  settings: DatabaseSettings,
  dataFolder: string,
  observer: DatabaseObserver = noObserver,
): Db {
  const address = parseDatabaseUrl(settings.url);
  if (address.kind === 'sqlite') return openSqlite(resolve(dataFolder, address.file), observer);
  return openPostgres(toPostgresSettings(settings), observer);
}

export function toPostgresSettings(settings: DatabaseSettings): PostgresSettings {
  const address = parseDatabaseUrl(settings.url);
  if (address.kind === 'sqlite') throw new BursarError('internal', 'SQLite has no network address.');
  return { connections: 1, ...defaultTimeouts, ...settings, address };
}
