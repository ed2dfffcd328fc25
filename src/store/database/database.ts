import { resolve } from 'node:path';
import { sql } from 'kysely';
import { type PostgresAddress, parseDatabaseUrl } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import { type DatabaseObserver, type Db, noObserver } from './handle.ts';
import { listMigrations, migrate } from './migrations.ts';
import { openPostgres, type PostgresSettings } from './postgres.ts';
import { requireExpectedSchema } from './schema-check.ts';
import { openSqlite } from './sqlite.ts';

/** All but the URL applies to PostgreSQL. Default: one connection, and `defaultTimeouts`. */
export interface DatabaseSettings extends Partial<Omit<PostgresSettings, 'address'>> {
  url: string;
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
    else await requireExpectedSchema(db);
    return db;
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

/** A migration may change every row of a large table, so its statements have no time limit. */
async function migrateDatabase(settings: DatabaseSettings, dataFolder: string): Promise<void> {
  await using db = connectDatabase({ ...settings, statementTimeoutMs: 0 }, dataFolder);
  await migrate(db);
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

/** The oldest major version that was still supported by the PostgreSQL project in 2026. */
const minPostgresVersion = 14;

/** Throws an error that says what to do, unless PostgreSQL accepts the user, lets it create tables and is new enough. */
export async function checkServer(db: Db, url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  if (address.kind === 'sqlite') return;
  let version: number;
  try {
    const { rows } = await sql<{ version: string; canCreate: boolean }>`
      select current_setting('server_version_num') as version,
             has_schema_privilege(current_schema(), 'create') as "canCreate"`.execute(db);
    version = Number(rows[0]?.version);
    if (rows[0]?.canCreate !== true) throw Object.assign(new Error('no privilege to create'), { code: '42501' });
  } catch (error) {
    throw describeConnectionError(error, address);
  }
  if (version < minPostgresVersion * 10_000) {
    throw new BursarError(
      'database_too_old',
      `PostgreSQL at ${address.host} is version ${Math.floor(version / 10_000)}. Bursar needs version ${minPostgresVersion} or newer: upgrade the server.`,
    );
  }
}

/** Whether the database answers a query on a table. */
export async function pingDatabase(db: Db): Promise<boolean> {
  const query = db.selectFrom('users').select('id').limit(1).execute();
  return await query.then(
    () => true,
    () => false,
  );
}

/** Explains to the operator why the connection failed at start, and what to do. */
function describeConnectionError(error: unknown, { host, port, user, database }: PostgresAddress): BursarError {
  if (error instanceof BursarError && error.code !== 'database_unavailable') return error;
  const cause = error instanceof BursarError ? (error.cause ?? error) : error;
  const address = host.startsWith('/') ? `the socket in ${host}` : `${host} port ${port}`;
  const { code = '', message } = cause as Error & { code?: string };
  const invalidConfig = (text: string) => new BursarError('invalid_config', text, { cause });
  if (['28P01', '28000'].includes(code)) {
    return invalidConfig(
      `PostgreSQL at ${address} rejects the user ${user ?? 'of this process'} (${message}). ` +
        'Correct the user and password in database.url, or pg_hba.conf.',
    );
  }
  if (code === '3D000') {
    return invalidConfig(`PostgreSQL at ${address} has no database ${database}. Create it: createdb ${database}`);
  }
  if (code === '42501') {
    return invalidConfig(
      `The user ${user ?? 'of this process'} may not create tables in the database ${database} (${message}). ` +
        'Make the user its owner.',
    );
  }
  if (/SSL|TLS|certificate/i.test(message) || code.startsWith('ERR_TLS') || code.startsWith('ERR_SSL')) {
    return invalidConfig(
      `Cannot open a TLS connection to PostgreSQL at ${address}: ${message}. ` +
        'Set sslmode and sslrootcert in database.url; see docs/postgresql.md.',
    );
  }
  return new BursarError(
    'database_unavailable',
    `Cannot connect to PostgreSQL at ${address} (${message || code}). Start it, or correct database.url.`,
    { cause, transient: true },
  );
}
