import { mkdirSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import Sqlite from 'better-sqlite3';
import { CompiledQuery, type Driver, Kysely, SqliteDialect } from 'kysely';
import { Migrator } from 'kysely/migration';
import { BursarError } from '../domain/errors.ts';
import { sqlite } from './dialect.ts';
import { ground } from './migrations/0001-ground.ts';
import { systems } from './migrations/0002-systems.ts';
import { lists } from './migrations/0004-lists.ts';
import type { Db, Tables } from './tables.ts';

/** Opens the database, creating it where there is none. Several processes may have it open at once. */
export function openDatabase(url: string, dataFolder: string): Db {
  const file = resolve(dataFolder, url.replace(/^sqlite:(\/\/)?/, ''));
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 });
  const database = new Sqlite(file);
  database.pragma('journal_mode = WAL');
  // Without FULL, WAL mode does not sync at commit: a 201 could be lost with the power.
  database.pragma('synchronous = FULL');
  database.pragma('foreign_keys = ON');
  database.pragma('busy_timeout = 10000');
  return new Kysely<Tables>({ dialect: new WritersFirst({ database }) });
}

/**
 * Transactions take the lock for writing when they begin. All of them write; one that had read first could find that
 * another process has written since, and would fail without anybody's fault.
 */
class WritersFirst extends SqliteDialect {
  override createDriver(): Driver {
    const driver = super.createDriver();
    driver.beginTransaction = async (connection) => {
      await connection.executeQuery(CompiledQuery.raw('begin immediate'));
    };
    return driver;
  }
}

/** Brings the schema up to date. Migrations are numbered, and never change once they are released. */
export async function migrate(db: Db): Promise<void> {
  const migrations = { '0001-ground': ground(sqlite), '0002-systems': systems, '0004-lists': lists };
  const migrator = new Migrator({ db, provider: { getMigrations: async () => migrations } });
  const applied = await migrator.getMigrations().catch(() => []);
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  if (String(error).includes('is missing')) {
    throw new BursarError(
      'schema_too_new',
      `The database has migrations that this Bursar does not know (it knows ${applied.length}). Use a newer Bursar.`,
      { cause: error },
    );
  }
  throw error;
}
