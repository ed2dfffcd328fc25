import { Migrator } from 'kysely/migration';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from './handle.ts';
import { initialSchema } from './migrations/0001-initial-schema.ts';
import { systems } from './migrations/0002-systems.ts';
import { eventsAndWebhooks } from './migrations/0003-events-and-webhooks.ts';
import { lists } from './migrations/0004-lists.ts';
import { leases } from './migrations/0005-leases.ts';
import { jobVersions } from './migrations/0006-job-versions.ts';
import { inputs } from './migrations/0007-inputs.ts';

/** Numbered, and never changed once they are released. */
function createMigrator(db: Db): Migrator {
  const dialect = db.backend.dialect;
  const migrations = {
    '0001-ground': initialSchema(dialect),
    '0002-systems': systems,
    '0003-events-and-webhooks': eventsAndWebhooks(dialect),
    '0004-lists': lists,
    '0005-leases': leases,
    '0006-job-versions': jobVersions,
    '0007-inputs': inputs(dialect),
  };
  return new Migrator({ db, provider: { getMigrations: async () => migrations } });
}

/** The migrations that the database has, and those that it still needs. */
export async function getSchemaStatus(db: Db): Promise<{ applied: string[]; pending: string[] }> {
  const known = await createMigrator(db).getMigrations();
  const names = (isApplied: boolean) =>
    known.filter(({ executedAt }) => (executedAt !== undefined) === isApplied).map(({ name }) => name);
  return { applied: names(true), pending: names(false) };
}

/** Brings the schema up to date. Whoever starts at the same time waits, and finds it done. */
export async function migrate(db: Db): Promise<void> {
  const migrator = createMigrator(db);
  const { error } = await migrator.migrateToLatest();
  if (error === undefined) return;
  if (String(error).includes('is missing')) {
    const known = await migrator.getMigrations().catch(() => []);
    throw new BursarError(
      'schema_too_new',
      `The database has migrations that this Bursar does not know (it knows ${known.length}). Use a newer Bursar.`,
      { cause: error },
    );
  }
  throw error;
}
