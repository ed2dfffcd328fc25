import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parseDatabaseUrl } from '../../config/database-url.ts';
import { hidePassword } from '../../config/format.ts';
import type { Config } from '../../config/schema.ts';
import { BursarError } from '../../domain/errors.ts';
import { checkServer } from '../../store/database/check-server.ts';
import { connectDatabase, type DatabaseSettings } from '../../store/database/database.ts';
import type { Db } from '../../store/database/handle.ts';
import { getSchemaStatus, migrate, type SchemaStatus } from '../../store/database/migrations.ts';
import { countRows } from '../../store/maintenance/copy-tables.ts';
import { createDataFolder } from '../../store/maintenance/data-folder.ts';
import { lockDataFolder } from '../../store/maintenance/instance-lock.ts';
import { restoreSnapshot, type Snapshot, takeSnapshot } from '../../store/maintenance/snapshot.ts';
import { exitCodes } from './exit-codes.ts';
import { formatVerification } from './ledger.ts';

/** Applies the pending migrations, as the next start of a server would. */
export async function migrateDatabase(config: Config): Promise<void> {
  const applied = await withConnection(config, config.database.url, async (db) => {
    const { pending } = await getSchemaStatus(db);
    await migrate(db);
    return pending;
  });
  print(applied.length === 0 ? 'The schema is up to date.' : `Migrations applied: ${applied.join(', ')}.`);
}

export async function printStatus(config: Config, options: { json: boolean }): Promise<void> {
  const { url } = config.database;
  const file = sqliteFile(config, url);
  const exists = file === null || existsSync(file);
  const state = exists
    ? await withConnection(config, url, async (db) => {
        const schema = await getSchemaStatus(db);
        return { ...schema, rows: schema.applied.length === 0 ? {} : Object.fromEntries(await countRows(db)) };
      })
    : { applied: [], pending: [], differences: [], rows: {} };
  const status = { database: file ?? hidePassword(url), exists, ...state };
  if (status.differences.length > 0) process.exitCode = exitCodes.failure;
  if (options.json) return print(JSON.stringify(status, null, 2));
  print(`Database: ${status.database}`);
  if (!exists) return print('The database does not exist yet. The first start creates it.');
  print(`Schema:   ${formatSchemaStatus(status)}`);
  for (const difference of status.differences) print(`  ${difference}`);
  for (const [table, rows] of Object.entries(status.rows)) print(`  ${table.padEnd(16)} ${rows}`);
}

function formatSchemaStatus({ pending, differences }: SchemaStatus): string {
  if (differences.length > 0) return 'not the one of this version of Bursar:';
  return pending.length === 0 ? 'up to date' : `pending migrations: ${pending.join(', ')}`;
}

/** A server may be running. */
export async function backUp(config: Config, file: string): Promise<void> {
  if (existsSync(file)) throw new BursarError('conflict', `${file} already exists. Choose another file name.`);
  const snapshot = await withConnection(config, config.database.url, (db) => takeSnapshot(db, resolve(file)));
  printSnapshot(`Backed up to ${file}`, snapshot);
}

export async function restore(config: Config, file: string): Promise<void> {
  const { url } = config.database;
  createDataFolder(resolve(config.data));
  const snapshot = await withServerExcluded(config, url, () =>
    withConnection(config, url, async (db) => {
      await migrate(db);
      return await restoreSnapshot(resolve(file), db, resolve(config.data));
    }),
  );
  printSnapshot(`Restored from ${file}`, snapshot);
}

/** Copies one database to another. The server must be stopped: its writes during the copy would be lost. */
export async function copyDatabase(config: Config, { from, to }: { from: string; to: string }): Promise<void> {
  const source = sqliteFile(config, from);
  if (source !== null && !existsSync(source))
    throw new BursarError('not_found', `There is no database file ${source}.`);
  createDataFolder(resolve(config.data));
  const folder = await mkdtemp(join(resolve(config.data), 'copy-'));
  const file = join(folder, 'snapshot.db');
  try {
    const snapshot = await withServerExcluded(config, from, async () => {
      await withConnection(config, from, (db) => takeSnapshot(db, file));
      return await withConnection(config, to, async (db) => {
        await migrate(db);
        return await restoreSnapshot(file, db, folder);
      });
    });
    printSnapshot(`Copied to ${hidePassword(to)}`, snapshot);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withConnection<T>(config: Config, url: string, use: (db: Db) => Promise<T>): Promise<T> {
  // Copying a whole table may exceed any statement timeout.
  const settings: DatabaseSettings = { ...config.database, url, statementTimeoutSeconds: 0 };
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
async function withServerExcluded<T>(config: Config, url: string, action: () => Promise<T>): Promise<T> {
  const file = sqliteFile(config, url);
  const unlock = file === null ? () => undefined : lockDataFolder(dirname(file));
  try {
    return await action();
  } finally {
    unlock();
  }
}

/** The path of a SQLite database; null for PostgreSQL. */
function sqliteFile(config: Config, url: string): string | null {
  const address = parseDatabaseUrl(url);
  return address.kind === 'sqlite' ? resolve(config.data, address.file) : null;
}

function printSnapshot(title: string, { rows, verification }: Snapshot): void {
  process.stdout.write(`${title}: ${rows} rows.\n${formatVerification(verification)}`);
  if (!verification.balanced) process.exitCode = exitCodes.failure;
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}
