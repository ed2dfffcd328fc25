import { sql } from 'kysely';
import { connectDatabase, type DatabaseSettings } from '../database/database.ts';
import { getSchemaStatus, type SchemaStatus } from '../database/migrations.ts';
import { type LedgerVerification, verifyLedger } from '../ledger/verify-ledger.ts';
import { countRows } from './copy-tables.ts';

export interface DatabaseReport {
  version: string;
  schema: SchemaStatus;
  /** Empty if the database has no tables yet. */
  rows: Record<string, number>;
  /** Null unless the schema is the one of this version. */
  ledger: LedgerVerification | null;
}

/** Describes a database without changing it: pending migrations stay pending. */
export async function readDatabaseReport(
  settings: DatabaseSettings,
  dataFolder: string,
  { verifiesLedger = true } = {},
): Promise<DatabaseReport> {
  await using db = connectDatabase({ ...settings, statementTimeoutMs: 0 }, dataFolder);
  const schema = await getSchemaStatus(db);
  const isCurrent = schema.pending.length === 0 && schema.differences.length === 0;
  const { rows } = await sql<{ version: string }>`select ${sql.raw(db.backend.dialect.version)} as version`.execute(db);
  return {
    version: rows[0]?.version ?? '',
    schema,
    rows: schema.applied.length === 0 ? {} : Object.fromEntries(await countRows(db)),
    ledger: isCurrent && verifiesLedger ? await verifyLedger(db) : null,
  };
}
