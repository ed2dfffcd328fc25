import { resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { msPerHour } from '../domain/units.ts';
import { openDatabase } from '../store/database/database.ts';
import type { Db } from '../store/database/handle.ts';
import { openPgNotify, type PgNotify } from '../store/database/pg-notify.ts';
import { releaseAllKeys } from '../store/jobs/idempotency-keys.ts';
import { checkDataFolder } from '../store/maintenance/data-folder.ts';
import { lockDataFolder } from '../store/maintenance/instance-lock.ts';
import { releaseAllLeases } from '../store/systems/leases.ts';
import { maxTimerMs } from '../workers/loop.ts';

/** `api` serves callers, `worker` looks after the systems, `all` does both. */
export type Role = 'all' | 'api' | 'worker';

/** The books, and how they are shared with others. */
export interface InstanceDatabase {
  db: Db;
  /** To the other Bursars on the same books; undefined when there can be none. */
  pgNotify: PgNotify | undefined;
  /** How long the work of a Bursar that is gone waits for another one. */
  leaseMs: number;
  /** How old a file must be at the start before it is certain that nobody is working on it. */
  staleAtStartMs: number;
  close(): Promise<void>;
}

/** How old a file must be, while requests are served, before it is certain that nobody is working on it. */
export const staleMs = msPerHour;

export async function openInstanceDatabase(config: Config, role: Role): Promise<InstanceDatabase> {
  const isShared = parseDatabaseUrl(config.database.url).kind === 'postgres';
  if (isShared) return await openShared(config);
  if (role === 'all') return await openExclusive(config);
  throw new BursarError(
    'invalid_argument',
    `The role ${role} is for several Bursars on one PostgreSQL, and database.url names SQLite. Leave --role out, or ` +
      'move to PostgreSQL: docs/scaling.md says how.',
  );
}

/** Nobody else has what an earlier life had: there is no need to wait for anything. */
async function openExclusive(config: Config): Promise<InstanceDatabase> {
  const dataFolder = resolve(config.data);
  const unlock = lockDataFolder(dataFolder);
  const db = await openDatabase(config.database, dataFolder);
  await releaseAllLeases(db);
  await releaseAllKeys(db);
  return {
    db,
    pgNotify: undefined,
    leaseMs: maxTimerMs,
    staleAtStartMs: 0,
    async close() {
      await db.destroy();
      unlock();
    },
  };
}

async function openShared(config: Config): Promise<InstanceDatabase> {
  const dataFolder = resolve(config.data);
  const db = await openDatabase(config.database, dataFolder);
  try {
    await checkDataFolder(db, dataFolder);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  const line = openPgNotify(db, config.database);
  return {
    db,
    pgNotify: line,
    leaseMs: config.database.leaseSeconds * 1000,
    staleAtStartMs: staleMs,
    async close() {
      await line.close();
      await db.destroy();
    },
  };
}
