import { sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { BursarError } from '../../domain/errors.ts';
import type { Dialect } from './dialect.ts';
import type { Db } from './handle.ts';
import { initialSchema } from './migrations/0001-initial-schema.ts';
import { findSchemaDifferences, requireExpectedSchema } from './schema-check.ts';

/**
 * A release adds at most one migration. After its release it is never changed or renamed: databases store the names of those
 * that they have.
 */
function createMigrations(dialect: Dialect): Record<string, Migration> {
  return { '0001-initial-schema': initialSchema(dialect) };
}

export function createMigrator(db: Db): Migrator {
  return new Migrator({
    db: db.withoutPlugins(),
    provider: { getMigrations: async () => createMigrations(db.backend.dialect) },
  });
}

export interface SchemaStatus {
  applied: string[];
  pending: string[];
  /** How the schema differs from the expected one, unless migrations are pending. */
  differences: string[];
}

export async function getSchemaStatus(db: Db): Promise<SchemaStatus> {
  const { applied, pending } = await listMigrations(db);
  return { applied, pending, differences: pending.length === 0 ? await findSchemaDifferences(db) : [] };
}

/** Reads the table of Kysely itself: Kysely would first read the columns of all tables, at every start. */
export async function listMigrations(db: Db): Promise<{ applied: string[]; pending: string[] }> {
  const { dialect } = db.backend;
  const known = Object.keys(createMigrations(dialect));
  const tables = await sql.raw(dialect.migrationTable).execute(db);
  if (tables.rows.length === 0) return { applied: [], pending: known };
  const { rows } = await sql<{ name: string }>`select name from kysely_migration order by name`.execute(db);
  const unknown = rows.find(({ name }) => !known.includes(name));
  if (unknown !== undefined) {
    throw new BursarError(
      'schema_unknown',
      `The database has the migration ${unknown.name}, which this version of Bursar does not know. It was created by a ` +
        'newer version, or by one before the first release, whose databases cannot be upgraded. Use that version, or a new database.',
    );
  }
  const isApplied = (name: string) => rows.some((row) => row.name === name);
  return { applied: known.filter(isApplied), pending: known.filter((name) => !isApplied(name)) };
}

/**
 * Migrates the schema to the latest version and checks the result, because an earlier version may have applied other
 * migrations under the same names. Other instances that start meanwhile wait. `npm run docs` updates the expected schema after a migration was added.
 */
export async function migrate(db: Db): Promise<void> {
  if ((await listMigrations(db)).pending.length > 0) {
    const { error } = await createMigrator(db).migrateToLatest();
    if (error !== undefined) throw error;
  }
  await requireExpectedSchema(db);
}
