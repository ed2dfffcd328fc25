import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { hidePassword } from '../../../config/format.ts';
import { getSchemaStatus, migrate, type SchemaStatus } from '../../../store/database/migrations.ts';
import { countRows } from '../../../store/maintenance/copy-tables.ts';
import { createDataFolder } from '../../../store/maintenance/data-folder.ts';
import { restoreSnapshot, takeSnapshot } from '../../../store/maintenance/snapshot.ts';
import type { OperatorContext } from '../operator.ts';
import { requireDatabase, sqliteFile, withConnection, withServerExcluded } from './db-connection.ts';
import { printSnapshot } from './print-snapshot.ts';

/** Applies the pending migrations, as the next start of a server would. */
export async function migrateDatabase(context: OperatorContext): Promise<void> {
  const { config } = context;
  const applied = await withConnection(config, config.database.url, async (db) => {
    const { pending } = await getSchemaStatus(db);
    await migrate(db);
    return pending;
  });
  linePrinter(context)(
    applied.length === 0 ? 'The schema is up to date.' : `Migrations applied: ${applied.join(', ')}.`,
  );
}

export async function printStatus(context: OperatorContext, options: { json: boolean }): Promise<void> {
  const { config } = context;
  const print = linePrinter(context);
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
  if (status.differences.length > 0) context.fail();
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

/** Copies one database to another. The server must be stopped: its writes during the copy would be lost. */
export async function copyDatabase(
  context: OperatorContext,
  { from, to }: { from: string; to: string },
): Promise<void> {
  const { config } = context;
  requireDatabase(config, from);
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
    printSnapshot(context, `Copied to ${hidePassword(to)}`, snapshot);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function linePrinter({ print }: OperatorContext) {
  return (line: string) => print(`${line}\n`);
}
