import { resolve } from 'node:path';
import { parseDatabaseUrl } from '../config/database-url.ts';
import type { Config } from '../config/schema.ts';
import { BursarError } from '../domain/errors.ts';
import { openBooks } from '../store/database/database.ts';
import { type DatabaseLine, openLine } from '../store/database/pg-notify.ts';
import type { Db } from '../store/database/tables.ts';
import { freeHeldKeys } from '../store/jobs/idempotency-keys.ts';
import { checkDataFolder } from '../store/maintenance/data-folder.ts';
import { lockDataFolder } from '../store/maintenance/instance-lock.ts';
import { endAllLeases } from '../store/systems/leases.ts';
import { forever } from '../workers/loop.ts';

/** `api` serves callers, `worker` looks after the systems, `all` does both. */
export type Role = 'all' | 'api' | 'worker';

/** The books, and how they are shared with others. */
export interface Books {
  db: Db;
  /** To the other Bursars on the same books; undefined when there can be none. */
  line: DatabaseLine | undefined;
  /** How long the work of a Bursar that is gone waits for another one. */
  leaseMs: number;
  /** How old a file must be at the start before it is certain that nobody is working on it. */
  staleAtStartMs: number;
  close(): Promise<void>;
}

/** How old a file must be, while requests are served, before it is certain that nobody is working on it. */
export const staleMs = 3_600_000;

export async function takeBooks(config: Config, role: Role): Promise<Books> {
  const isShared = parseDatabaseUrl(config.database.url).kind === 'postgres';
  if (isShared) return await shareBooks(config);
  if (role === 'all') return await haveBooksAlone(config);
  throw new BursarError(
    'invalid_argument',
    `The role ${role} is for several Bursars on one PostgreSQL, and database.url names SQLite. Leave --role out, or ` +
      'move to PostgreSQL: docs/scaling.md says how.',
  );
}

/** Nobody else has what an earlier life had: there is no need to wait for anything. */
async function haveBooksAlone(config: Config): Promise<Books> {
  const dataFolder = resolve(config.data);
  const unlock = lockDataFolder(dataFolder);
  const db = await openBooks(config.database, dataFolder);
  await endAllLeases(db);
  await freeHeldKeys(db);
  return {
    db,
    line: undefined,
    leaseMs: forever,
    staleAtStartMs: 0,
    async close() {
      await db.destroy();
      unlock();
    },
  };
}

async function shareBooks(config: Config): Promise<Books> {
  const dataFolder = resolve(config.data);
  const db = await openBooks(config.database, dataFolder);
  try {
    await checkDataFolder(db, dataFolder);
  } catch (error) {
    await db.destroy();
    throw error;
  }
  const line = openLine(db, config.database);
  return {
    db,
    line,
    leaseMs: config.database.leaseSeconds * 1000,
    staleAtStartMs: staleMs,
    async close() {
      await line.close();
      await db.destroy();
    },
  };
}
