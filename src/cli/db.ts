import { existsSync, mkdirSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import { hidePassword } from '../config/print.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { checkServer } from '../store/database/check-server.ts';
import { connectDatabase, type DatabaseSettings } from '../store/database/database.ts';
import { migrate, schemaOf } from '../store/database/migrations.ts';
import type { Db } from '../store/database/tables.ts';
import { countRows } from '../store/maintenance/copy-tables.ts';
import { lockDataFolder } from '../store/maintenance/instance-lock.ts';
import { fillFrom, type Snapshot, takeSnapshot } from '../store/maintenance/snapshot.ts';
import { exitCodes } from './exit-codes.ts';

/** Brings the schema up to date, as the next start would. */
export async function migrateDatabase(config: Config): Promise<void> {
  const applied = await withDatabase(config, config.database.url, async (db) => {
    const { pending } = await schemaOf(db);
    await migrate(db);
    return pending;
  });
  say(applied.length === 0 ? 'The schema is up to date.' : `Brought up to date: ${applied.join(', ')}.`);
}

export async function showStatus(config: Config, options: { json: boolean }): Promise<void> {
  const { url } = config.database;
  const file = fileOf(config, url);
  const isThere = file === null || existsSync(file);
  const state = isThere
    ? await withDatabase(config, url, async (db) => {
        const schema = await schemaOf(db);
        return { ...schema, rows: schema.applied.length === 0 ? {} : Object.fromEntries(await countRows(db)) };
      })
    : { applied: [], pending: [], rows: {} };
  const status = { database: file ?? hidePassword(url), exists: isThere, ...state };
  if (options.json) return say(JSON.stringify(status, null, 2));
  say(`Database: ${status.database}`);
  if (!isThere) return say('There is none yet; the first start makes it.');
  say(`Schema:   ${status.pending.length === 0 ? 'up to date' : `needs ${status.pending.join(', ')}`}`);
  for (const [table, rows] of Object.entries(status.rows)) say(`  ${table.padEnd(16)} ${rows}`);
}

/** While the service runs, or not. */
export async function backUp(config: Config, file: string): Promise<void> {
  refuseExisting(file);
  const snapshot = await withDatabase(config, config.database.url, (db) => takeSnapshot(db, resolve(file)));
  report(`Backed up to ${file}`, snapshot);
}

export async function restore(config: Config, file: string): Promise<void> {
  const { url } = config.database;
  mkdirSync(resolve(config.data), { recursive: true, mode: 0o700 });
  const snapshot = await unserved(config, url, () =>
    withDatabase(config, url, async (db) => {
      await migrate(db);
      return await fillFrom(resolve(file), db, resolve(config.data));
    }),
  );
  report(`Restored from ${file}`, snapshot);
}

/** Moves the books from one database to another. The service must be stopped: what it does meanwhile would be lost. */
export async function copyDatabase(config: Config, { from, to }: { from: string; to: string }): Promise<void> {
  const source = fileOf(config, from);
  if (source !== null && !existsSync(source)) throw new BursarError('not_found', `There is no database ${source}.`);
  mkdirSync(resolve(config.data), { recursive: true, mode: 0o700 });
  const folder = await mkdtemp(join(resolve(config.data), 'copy-'));
  const file = join(folder, 'snapshot.db');
  try {
    const snapshot = await unserved(config, from, async () => {
      await withDatabase(config, from, (db) => takeSnapshot(db, file));
      return await withDatabase(config, to, async (db) => {
        await migrate(db);
        return await fillFrom(file, db, folder);
      });
    });
    report(`Copied to ${hidePassword(to)}`, snapshot);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function withDatabase<T>(config: Config, url: string, use: (db: Db) => Promise<T>): Promise<T> {
  // Whole tables take as long as they take.
  const settings: DatabaseSettings = { ...config.database, url, statementTimeoutSeconds: 0 };
  const db = connectDatabase(settings, resolve(config.data));
  try {
    await checkServer(db, url);
    return await use(db);
  } finally {
    await db.destroy();
  }
}

/** Does something while no server can work on that database, as far as its folder tells. */
async function unserved<T>(config: Config, url: string, act: () => Promise<T>): Promise<T> {
  const file = fileOf(config, url);
  const unlock = file === null ? () => undefined : lockDataFolder(dirname(file));
  try {
    return await act();
  } finally {
    unlock();
  }
}

/** The file of a SQLite database; null for PostgreSQL. */
function fileOf(config: Config, url: string): string | null {
  const address = parseDatabaseUrl(url);
  return address.kind === 'sqlite' ? resolve(config.data, address.file) : null;
}

function refuseExisting(file: string): void {
  if (existsSync(file)) throw new BursarError('conflict', `${file} is there already. Name another file.`);
}

function report(what: string, { rows, proof }: Snapshot): void {
  const { balanced, accounts, entries, problems } = proof;
  say(`${what}: ${rows} rows.`);
  if (balanced) say(`The books balance: ${accounts} accounts, ${entries} entries.`);
  else {
    say(`The books do not balance:\n${problems.map((problem) => `  ${problem}`).join('\n')}`);
    process.exitCode = exitCodes.failure;
  }
}

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}
