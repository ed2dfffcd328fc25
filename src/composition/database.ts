import { resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { msPerHour } from '../domain/units.ts';
import { openDatabase } from '../store/database/database.ts';
import type { DatabaseObserver, Db } from '../store/database/handle.ts';
import { openPgNotify, type PgNotify } from '../store/database/pg-notify.ts';
import { deleteAllClaims } from '../store/jobs/idempotency-keys.ts';
import { checkDataFolder, lockDataFolder, lockFileName } from '../store/maintenance/data-folder.ts';
import { releaseAllLeases } from '../store/systems/leases.ts';
import { maxTimerMs } from '../workers/loop.ts';
import type { Tuning } from './tuning.ts';

/** `api` serves the HTTP API, `worker` runs the background work, `all` does both. */
export type Role = 'all' | 'api' | 'worker';

/** The database of this instance, and how it is shared with other instances. */
export interface InstanceDatabase {
  db: Db;
  /** Undefined on SQLite, which only one instance can use. */
  pgNotify: PgNotify | undefined;
  /** Duration of a lease: other instances take over the work of a killed instance after this time. */
  leaseMs: number;
  /** Like `staleMs`, for the cleanup at start. 0 on SQLite: no other instance can be receiving an upload. */
  staleAtStartMs: number;
  /** The files that SQLite locks. This process must not open them in any other way: closing them would drop the locks. */
  lockedFiles: readonly string[];
  close(): Promise<void>;
}

/** A spooled file older than this and without a job is deleted. A younger one may be an upload in progress. */
export const staleMs = msPerHour;

export async function openInstanceDatabase(
  config: Config,
  role: Role,
  observer: DatabaseObserver,
  tuning: Tuning,
): Promise<InstanceDatabase> {
  if (parseDatabaseUrl(config.database.url).kind === 'postgres') return await openShared(config, observer, tuning);
  if (role === 'all') return await openExclusive(config, observer);
  throw new BursarError(
    'invalid_argument',
    `The role ${role} needs PostgreSQL, and database.url names SQLite. Leave out --role, or move to PostgreSQL as ` +
      'docs/scaling.md describes.',
  );
}

/** No other instance can hold leases or keys of an earlier run, so they are released at once. */
async function openExclusive(config: Config, observer: DatabaseObserver): Promise<InstanceDatabase> {
  const dataFolder = resolve(config.data);
  const unlock = lockDataFolder(dataFolder);
  let db: Db | undefined;
  const close = async () => {
    await db?.destroy();
    unlock();
  };
  try {
    db = await openDatabase(config.database, dataFolder, observer);
    await releaseAllLeases(db);
    await deleteAllClaims(db);
    return {
      db,
      pgNotify: undefined,
      leaseMs: maxTimerMs,
      staleAtStartMs: 0,
      lockedFiles: listSqliteFiles(config),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

function listSqliteFiles({ data, database }: Config): string[] {
  const address = parseDatabaseUrl(database.url);
  const names = address.kind === 'sqlite' ? [address.file, lockFileName] : [];
  return names.flatMap((name) => ['', '-wal', '-shm', '-journal'].map((suffix) => `${resolve(data, name)}${suffix}`));
}

async function openShared(
  config: Config,
  observer: DatabaseObserver,
  { connectTimeoutMs, leaseMs }: Tuning,
): Promise<InstanceDatabase> {
  const dataFolder = resolve(config.data);
  const settings = { ...config.database, connectTimeoutMs };
  const db = await openDatabase(settings, dataFolder, observer);
  try {
    await checkDataFolder(db, dataFolder);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  const pgNotify = await openPgNotify(db, settings);
  return {
    db,
    pgNotify,
    leaseMs,
    staleAtStartMs: staleMs,
    lockedFiles: [],
    async close() {
      await pgNotify.close();
      await db.destroy();
    },
  };
}
