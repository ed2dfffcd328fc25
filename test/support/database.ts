import { constants, copyFileSync, existsSync } from 'node:fs';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { CompiledQuery } from 'kysely';
import pg from 'pg';
import { connectDatabase, type DatabaseSettings } from '../../src/store/database/database.ts';
import type { Db } from '../../src/store/database/handle.ts';
import { sqliteTemplateVariable, templateDatabase } from './template-database.ts';

/**
 * The PostgreSQL server that `scripts/run-tests.ts` has started, if BURSAR_TEST_DATABASE is `postgres`; null for SQLite.
 * Each data folder has its own database, with the same name.
 */
const server = process.env.BURSAR_TEST_DATABASE === 'postgres' ? (process.env.BURSAR_TEST_POSTGRES ?? '') : null;
if (server === '') throw new Error('run the tests on PostgreSQL with scripts/run-tests.ts, which starts a server');

function databaseUrl(data: string): string {
  return server === null ? 'sqlite:bursar.db' : server.replace(/[^/]*$/, encodeURIComponent(basename(data)));
}

/** A test of locks between transactions, of which SQLite has none: it is not defined there. */
export function postgresTest(name: string, body: (t: TestContext) => Promise<void>): void {
  if (server !== null) test(name, body);
}

export function databaseSettings(data: string): DatabaseSettings {
  return { url: databaseUrl(data), connections: 10, connectTimeoutMs: 20_000, statementTimeoutMs: 60_000 };
}

/** The environment variables that select the database of a data folder. */
export function databaseEnvironment(data: string): Record<string, string> {
  return server === null ? {} : { BURSAR_DATABASE_URL: databaseUrl(data) };
}

/** Creates the database of a data folder, with its schema, if it does not exist. */
export async function prepareDatabase(data: string): Promise<void> {
  if (server === null) {
    copySqliteTemplate(data);
    return;
  }
  await withServer(async (client) => {
    const { rowCount } = await client.query('select 1 from pg_database where datname = $1', [basename(data)]);
    if (rowCount === 0) await client.query(`create database "${basename(data)}" template "${templateDatabase}"`);
  });
}

/** Without a template, which only `scripts/run-tests.ts` creates, the migrations create the database. */
function copySqliteTemplate(data: string): void {
  const template = process.env[sqliteTemplateVariable];
  const file = join(data, 'bursar.db');
  if (template === undefined || !existsSync(data) || existsSync(file)) return;
  copyFileSync(template, file, constants.COPYFILE_EXCL);
}

/** On SQLite, opening it creates it. */
export async function createEmptyDatabase(data: string): Promise<void> {
  if (server !== null) await withServer((client) => client.query(`create database "${basename(data)}"`));
}

export async function dropDatabase(data: string): Promise<void> {
  if (server !== null)
    await withServer((client) => client.query(`drop database if exists "${basename(data)}" (force)`));
}

async function withServer(use: (client: pg.Client) => Promise<unknown>): Promise<void> {
  const client = new pg.Client({ connectionString: server ?? '' });
  await client.connect();
  try {
    await use(client);
  } finally {
    await client.end();
  }
}

/** The databases of the servers that run in this process, by data folder. */
const openDatabases = new Map<string, Db>();

export function registerDatabase(data: string, db: Db): void {
  openDatabases.set(data, db);
}

export function findOpenDatabase(data: string): Db | undefined {
  return openDatabases.get(data);
}

export function unregisterDatabase(data: string): void {
  openDatabases.delete(data);
}

/**
 * Gives access to the database of a data folder. A server in this process shares its handle: a second SQLite connection of
 * the same thread would block while it waits for a transaction of the first one, which could then never end.
 */
export async function withDatabase<T>(data: string, use: (db: Db) => Promise<T>, url = databaseUrl(data)): Promise<T> {
  const open = openDatabases.get(data);
  if (open !== undefined) return await use(open);
  const db = connectDatabase({ ...databaseSettings(data), url }, data);
  try {
    return await use(db);
  } finally {
    await db.destroy();
  }
}

/** Runs a statement with `?` placeholders on either database. */
export async function queryDatabase<Row>(data: string, text: string, values: (string | number)[]): Promise<Row[]> {
  let number = 0;
  const portable = server === null ? text : text.replace(/\?/g, () => `$${++number}`);
  const { rows } = await withDatabase(data, (db) =>
    db.withoutPlugins().executeQuery<Row>(CompiledQuery.raw(portable, values)),
  );
  return rows;
}
