import { sql } from 'kysely';
import { parseDatabaseUrl } from '../../config/database-url.ts';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from './handle.ts';
import { describeConnectionError } from './postgres-errors.ts';

/** The oldest major version that its makers still mended when this was written. */
const oldestPostgres = 14;

/** Throws, with what to do, unless a PostgreSQL is there that lets us in and is new enough. A file needs no check. */
export async function checkServer(db: Db, url: string): Promise<void> {
  const address = parseDatabaseUrl(url);
  if (address.kind === 'sqlite') return;
  let version: number;
  try {
    const { rows } = await sql<{ version: string; may: boolean }>`
      select current_setting('server_version_num') as version,
             has_schema_privilege(current_schema(), 'create') as may`.execute(db);
    version = Number(rows[0]?.version);
    if (rows[0]?.may !== true) throw Object.assign(new Error('no privilege to create'), { code: '42501' });
  } catch (error) {
    throw describeConnectionError(error, address);
  }
  if (version < oldestPostgres * 10_000) {
    throw new BursarError(
      'database_too_old',
      `PostgreSQL at ${address.host} is version ${Math.floor(version / 10_000)}. Bursar needs ${oldestPostgres} or newer.`,
    );
  }
}
