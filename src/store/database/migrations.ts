import { sql } from 'kysely';
import { type Migration, Migrator } from 'kysely/migration';
import { BursarError } from '../../domain/errors.ts';
import type { Dialect } from './dialect.ts';
import type { Db } from './handle.ts';
import { type MigrationNote, migrationNotes } from './migration-notes.ts';
import { initialSchema } from './migrations/0001-initial-schema.ts';
import { systems } from './migrations/0002-systems.ts';
import { eventsAndWebhooks } from './migrations/0003-events-and-webhooks.ts';
import { lists } from './migrations/0004-lists.ts';
import { leases } from './migrations/0005-leases.ts';
import { jobVersions } from './migrations/0006-job-versions.ts';
import { inputs } from './migrations/0007-inputs.ts';
import { cancelRequests } from './migrations/0008-cancel-requests.ts';
import { delayedJobs } from './migrations/0009-delayed-jobs.ts';
import { jobTags } from './migrations/0010-job-tags.ts';
import { unfinishedJobs } from './migrations/0011-unfinished-jobs.ts';
import { stoppedWebhooks } from './migrations/0012-stopped-webhooks.ts';
import { monthlyUsage } from './migrations/0013-monthly-usage.ts';
import { identity } from './migrations/0014-identity.ts';
import { auditChain } from './migrations/0015-audit-chain.ts';
import { identities } from './migrations/0016-identities.ts';
import { signIn } from './migrations/0017-sign-in.ts';
import { tokenNotices } from './migrations/0018-token-notices.ts';
import { tracesAndClaims } from './migrations/0019-traces-and-claims.ts';
import { responseSecrets } from './migrations/0020-response-secrets.ts';
import { indexes } from './migrations/0021-indexes.ts';
import { findSchemaDifferences, requireExpectedSchema } from './schema-check.ts';

/** Its file was renamed, but existing databases know it by this name. */
const firstMigration = '0001-ground';

/** Migrations are never changed or renamed after their release: databases store the names of those they have. */
function createMigrations(dialect: Dialect): Record<string, Migration> {
  return {
    [firstMigration]: initialSchema(dialect),
    '0002-systems': systems,
    '0003-events-and-webhooks': eventsAndWebhooks(dialect),
    '0004-lists': lists,
    '0005-leases': leases,
    '0006-job-versions': jobVersions,
    '0007-inputs': inputs(dialect),
    '0008-cancel-requests': cancelRequests,
    '0009-delayed-jobs': delayedJobs,
    '0010-job-tags': jobTags,
    '0011-unfinished-jobs': unfinishedJobs,
    '0012-stopped-webhooks': stoppedWebhooks,
    '0013-monthly-usage': monthlyUsage(dialect),
    '0014-identity': identity,
    '0015-audit-chain': auditChain(dialect),
    '0016-identities': identities,
    '0017-sign-in': signIn(dialect),
    '0018-token-notices': tokenNotices,
    '0019-traces-and-claims': tracesAndClaims,
    '0020-response-secrets': responseSecrets,
    '0021-indexes': indexes(dialect),
  };
}

export function createMigrator(db: Db): Migrator {
  return new Migrator({ db, provider: { getMigrations: async () => createMigrations(db.backend.dialect) } });
}

export interface SchemaStatus {
  applied: string[];
  pending: string[];
  /** How the schema differs from the expected one, unless migrations are pending. */
  differences: string[];
}

/** Lists the migrations that the database has and those that it lacks. */
export async function getSchemaStatus(db: Db): Promise<SchemaStatus> {
  const { applied, pending } = await listMigrations(db);
  return { applied, pending, differences: pending.length === 0 ? await findSchemaDifferences(db) : [] };
}

/** Reads the table of Kysely itself: Kysely would first read the columns of all tables, at every start. */
async function listMigrations(db: Db): Promise<{ applied: string[]; pending: string[] }> {
  const known = Object.keys(createMigrations(db.backend.dialect));
  if (!(await db.backend.dialect.hasTable(db, 'kysely_migration'))) return { applied: [], pending: known };
  const { rows } = await sql<{ name: string }>`select name from kysely_migration`.execute(db);
  if (rows.some(({ name }) => !known.includes(name))) {
    throw new BursarError(
      'schema_too_new',
      `The database has migrations that this version of Bursar does not know (it knows ${known.length}). Use a newer version.`,
    );
  }
  const isApplied = (name: string) => rows.some((row) => row.name === name);
  return { applied: known.filter(isApplied), pending: known.filter((name) => !isApplied(name)) };
}

/**
 * Migrates the schema to the latest version and checks the result, because an earlier version may have applied other
 * migrations under the same names. `npm run docs` updates the expected schema after a migration was added.
 */
export async function migrate(db: Db): Promise<void> {
  await applyMigrations(db);
  await requireExpectedSchema(db);
}

export interface PendingMigration extends MigrationNote {
  name: string;
}

export async function listPendingMigrations(db: Db): Promise<PendingMigration[]> {
  const { pending } = await listMigrations(db);
  return pending.map((name) => ({ name, ...requireNote(name) }));
}

function requireNote(name: string): MigrationNote {
  const note = migrationNotes[name];
  if (note === undefined) throw new Error(`the migration ${name} has no note`);
  return note;
}

/** Throws if servers are running that would fail after one of the migrations, or write in the old format. */
async function requireNoOldServers(db: Db, pending: readonly PendingMigration[]): Promise<void> {
  const breaking = pending.find(({ isCompatible }) => !isCompatible);
  if (breaking === undefined || breaking.name === firstMigration) return;
  const servers = await db.backend.dialect.listServers(db);
  if (servers.length === 0) return;
  throw new BursarError(
    'conflict',
    `The migration ${breaking.name} cannot be applied while servers of an older version use the database: ` +
      `${servers.join(', ')}. Stop them first. Jobs go on meanwhile.`,
  );
}

/** Applies the pending migrations. Other instances that start meanwhile wait. */
export async function applyMigrations(db: Db): Promise<void> {
  const pending = await listPendingMigrations(db);
  if (pending.length === 0) return;
  await requireNoOldServers(db, pending);
  const { error } = await createMigrator(db).migrateToLatest();
  if (error !== undefined) throw error;
}
