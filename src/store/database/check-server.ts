import { sql } from 'kysely';
import { parseDatabaseUrl } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from './handle.ts';
import { describeConnectionError } from './postgres-errors.ts';

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
