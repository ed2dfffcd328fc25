import { mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import Sqlite from 'better-sqlite3';
import { Kysely, PostgresDialect } from 'kysely';
import { parseDatabaseUrl } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import { checkServer } from './check-server.ts';
import { runDirectly } from './direct.ts';
import { migrate } from './migrations.ts';
import { createPgPool, type PostgresSettings } from './postgres.ts';
import { rememberReads } from './query-cache.ts';
import { inTransactionOnly, ReaderAndWriter, statementsOf } from './sqlite.ts';
import type { Db, Tables } from './tables.ts';

export interface DatabaseSettings {
  url: string;
  /** The rest is for PostgreSQL. */
  connections: number;
  connectTimeoutSeconds: number;
  /** 0 for none. */
  statementTimeoutSeconds: number;
}

/** Opens the database and brings its schema up to date; or says what keeps it from that, and what to do. */
export async function openDatabase(settings: DatabaseSettings, dataFolder: string): Promise<Db> {
  const db = connectDatabase(settings, dataFolder);
  try {
    await checkServer(db, settings.url);
    await migrate(db);
    return db;
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

/**
 * Opens the database as it is. A SQLite file is created where there is none; a PostgreSQL server is not asked anything
 * before the first query. Several processes may have it open at once.
 */
export function connectDatabase(settings: DatabaseSettings, dataFolder: string): Db {
  const address = parseDatabaseUrl(settings.url);
  if (address.kind === 'sqlite') return openSqlite(resolve(dataFolder, address.file));
  const pool = () => createPgPool(postgresSettings(settings));
  return new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
}

export function postgresSettings(settings: DatabaseSettings): PostgresSettings {
  const address = parseDatabaseUrl(settings.url);
  if (address.kind === 'sqlite') throw new BursarError('internal', 'SQLite is not reached through a network.');
  return {
    address,
    connections: settings.connections,
    connectTimeoutMs: settings.connectTimeoutSeconds * 1000,
    statementTimeoutMs: settings.statementTimeoutSeconds * 1000,
  };
}

function openSqlite(file: string): Db {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const writer = new Sqlite(file);
  writer.pragma('journal_mode = WAL');
  // Without FULL, WAL mode does not sync at commit: a 201 could be lost with the power.
  writer.pragma('synchronous = FULL');
  writer.pragma('foreign_keys = ON');
  // What a savepoint would undo: it is little, and else a file that is made and removed for every transaction.
  writer.pragma('temp_store = MEMORY');
  writer.pragma('busy_timeout = 10000');
  const reader = new Sqlite(file, { readonly: true });
  reader.pragma('busy_timeout = 10000');
  let onCommit = () => {};
  const [read, runAlone] = [statementsOf(reader), statementsOf(writer)];
  const write = inTransactionOnly(writer, runAlone);
  const handles = { writer, reader, read, write, runAlone, onCommit: () => onCommit() };
  const db = new Kysely<Tables>({ dialect: new ReaderAndWriter(handles) });
  runDirectly(db, handles);
  onCommit = rememberReads(db, reader);
  return db;
}
