import { copyFile, mkdtemp, open, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { sql } from 'kysely';
import { BursarError } from '../../domain/errors.ts';
import { connectDatabase, openDatabase } from '../database/database.ts';
import type { Db } from '../database/handle.ts';
import { getSchemaStatus } from '../database/migrations.ts';
import { inTransaction, runWithoutRetry } from '../database/transaction.ts';
import { type LedgerVerification, verifyLedger } from '../ledger/verify-ledger.ts';
import { releaseAllLeases } from '../systems/leases.ts';
import { copyTables, countRows } from './copy-tables.ts';
import { clearDataFolderId } from './data-folder.ts';

/**
 * A snapshot is one SQLite file with the state of either database at one time. So a backup of one kind of database can be
 * restored to the other, and a move from one to the other is a backup and a restore.
 */
export interface Snapshot {
  /** The number of rows of all tables. */
  rows: number;
  verification: LedgerVerification;
}

const fileSettings = { connections: 1, connectTimeoutSeconds: 10, statementTimeoutSeconds: 0 };
const sqliteSettings = (file: string) => ({ ...fileSettings, url: `sqlite:${resolve(file)}` });

/**
 * Writes a snapshot while the database stays in use. After success the file is complete, synced and verified, and only its
 * owner can read it. After a failure there is none. Throws if the schema is not up to date.
 */
export async function takeSnapshot(db: Db, file: string): Promise<Snapshot> {
  await requireCurrentSchema(db);
  const partial = `${file}.partial`;
  await rm(partial, { force: true });
  try {
    // SQLite fills an empty file, and keeps its mode.
    await writeFile(partial, '', { flag: 'wx', mode: 0o600 });
    if (db.backend.dialect.name === 'sqlite') await sql`vacuum into ${partial}`.execute(db);
    else await copyToFile(db, partial);
    await withSqliteFile(partial, detachFromInstances);
    const snapshot = await withSqliteFile(partial, summarize);
    await syncAndRename(partial, file);
    return snapshot;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

/** Removes the data folder id and the leases: an instance on the snapshot has its own data folder. */
async function detachFromInstances(db: Db): Promise<void> {
  await clearDataFolderId(db);
  await releaseAllLeases(db);
}

/** Copies a repeatable-read snapshot of PostgreSQL, which blocks no writer. */
async function copyToFile(db: Db, file: string): Promise<void> {
  await withSqliteFile(file, async (target) => {
    const builder = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    await runWithoutRetry(db, builder, (from) => inTransaction(target, (to) => copyTables(from, to)));
  });
}

/**
 * Fills an empty database from a snapshot in one transaction: after a failure it is still empty. The snapshot is copied
 * into `folder` and there migrated to the latest schema; the file itself is only read.
 */
export async function restoreSnapshot(file: string, db: Db, folder: string): Promise<Snapshot> {
  const workFolder = await mkdtemp(join(folder, 'restoring-'));
  const copy = join(workFolder, 'snapshot.db');
  try {
    await copyFile(file, copy).catch((cause) => {
      throw new BursarError('not_found', `Cannot read ${file}: ${(cause as Error).message}`, { cause });
    });
    await requireSnapshot(copy, file);
    return await withSqliteFile(copy, async (from) => {
      const expected = await summarize(from);
      // Without retries: a conflict on an empty database means that another process writes to it, or that the snapshot is
      // not consistent, and copying it again takes as long.
      return await runWithoutRetry(db, db.transaction(), async (to) => {
        await requireEmpty(to);
        await copyTables(from, to);
        const restored = await summarize(to);
        if (JSON.stringify(restored) !== JSON.stringify(expected)) {
          throw new Error('the restored database differs from the snapshot; the restore was rolled back');
        }
        return restored;
      });
    });
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

async function summarize(db: Db): Promise<Snapshot> {
  const counts = await countRows(db);
  const rows = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return { rows, verification: await verifyLedger(db) };
}

async function withSqliteFile<T>(file: string, use: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDatabase(sqliteSettings(file), '.');
  try {
    return await use(db);
  } finally {
    await db.destroy();
  }
}

async function requireCurrentSchema(db: Db): Promise<void> {
  const { pending } = await getSchemaStatus(db);
  if (pending.length === 0) return;
  throw new BursarError('conflict', 'The schema of the database is not up to date. Run "bursar db migrate" first.');
}

async function requireEmpty(db: Db): Promise<void> {
  const used = [...(await countRows(db))].find(([, count]) => count > 0);
  if (used === undefined) return;
  throw new BursarError(
    'conflict',
    `The target is not empty: its table ${used[0]} has ${used[1]} rows. Use a new database.`,
  );
}

/** Any other file, or the database of another program, would be restored as an empty database. */
async function requireSnapshot(copy: string, file: string): Promise<void> {
  let applied = 0;
  try {
    const db = connectDatabase(sqliteSettings(copy), '.');
    applied = (await getSchemaStatus(db).finally(() => db.destroy())).applied.length;
  } catch {
    // Not a SQLite file.
  }
  if (applied === 0)
    throw new BursarError(
      'invalid_argument',
      `${file} is not a Bursar backup. Name a file that "bursar db backup" wrote.`,
    );
}

async function syncAndRename(partial: string, file: string): Promise<void> {
  await sync(partial, 'r+');
  await rename(partial, file);
  // Without this, the new name may not survive a power failure.
  await sync(dirname(file), 'r');
}

async function sync(path: string, flags: 'r' | 'r+'): Promise<void> {
  const handle = await open(path, flags);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}
