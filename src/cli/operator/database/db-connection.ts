import { existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { parseDatabaseUrl } from '../../../config/database-url.ts';
import type { Config } from '../../../config/schema.ts';
import { BursarError } from '../../../domain/errors.ts';
import { checkServer, connectDatabase, type DatabaseSettings } from '../../../store/database/database.ts';
import type { Db } from '../../../store/database/handle.ts';
import { lockDataFolder } from '../../../store/maintenance/data-folder.ts';

/** Throws if there is no SQLite database. A connection would create an empty one in a folder that was named by mistake. */
export function requireDatabase(config: Config, url: string): void {
  const file = sqliteFile(config, url);
  if (file === null || existsSync(file)) return;
  const message = `There is no database file ${file}. Name the data folder with BURSAR_DATA.`;
  throw new BursarError('not_found', message);
}

/** Opens a database without migrating it. */
export async function withConnection<T>(config: Config, url: string, use: (db: Db) => Promise<T>): Promise<T> {
  // Copying a whole table may exceed any statement timeout.
  const settings: DatabaseSettings = { ...config.database, url, statementTimeoutMs: 0 };
  const db = connectDatabase(settings, resolve(config.data));
  try {
    await checkServer(db, url);
    return await use(db);
  } finally {
    await db.destroy();
  }
}

/**
 * Holds the lock of the data folder during `action`, so that no server can use a SQLite database. On PostgreSQL there is
 * no such lock: the operator must stop the servers.
 */
export async function withServerExcluded<T>(config: Config, url: string, action: () => Promise<T>): Promise<T> {
  const file = sqliteFile(config, url);
  const unlock = file === null ? () => undefined : lockDataFolder(dirname(file));
  try {
    return await action();
  } finally {
    unlock();
  }
}

/** The path of a SQLite database; null for PostgreSQL. */
export function sqliteFile(config: Config, url: string): string | null {
  const address = parseDatabaseUrl(url);
  return address.kind === 'sqlite' ? resolve(config.data, address.file) : null;
}
