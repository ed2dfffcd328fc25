import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type DatabaseSettings, openDatabase } from '../../src/store/database/database.ts';

/** Has the latest schema. Each test on PostgreSQL uses a copy of it: a copy takes half the CPU time of the migrations. */
export const templateDatabase = 'bursar-template';

/** The environment variable with the path of a SQLite file that has the latest schema. New data folders get a copy of it. */
export const sqliteTemplateVariable = 'BURSAR_TEST_SQLITE_TEMPLATE';

/** Migrates the new, empty template. */
export async function prepareTemplateDatabase(url: string): Promise<void> {
  await migrateTemplate({ url }, '');
}

/** Creates the template of the SQLite databases, and returns its path. */
export async function createSqliteTemplate(): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'bursar-template-'));
  await migrateTemplate({ url: 'sqlite:bursar.db' }, folder);
  return join(folder, 'bursar.db');
}

async function migrateTemplate({ url }: Pick<DatabaseSettings, 'url'>, folder: string): Promise<void> {
  const db = await openDatabase({ url, connectTimeoutMs: 20_000, statementTimeoutMs: 60_000 }, folder);
  await db.destroy();
}
