import { copyFile, mkdtemp, open, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
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
 * The whole books at one moment, as one SQLite file, whichever database they are in: so a backup of the one can be
 * restored to the other, and moving from one to the other is the two in a row.
 */
export interface Snapshot {
  /** Rows, of all tables together. */
  rows: number;
  verification: LedgerVerification;
}

const noLimits = { connections: 1, connectTimeoutSeconds: 10, statementTimeoutSeconds: 0 };
const settingsOf = (file: string) => ({ ...noLimits, url: `sqlite:${resolve(file)}` });

/**
 * Writes a snapshot while others go on working. After success the file is complete, synced and proved; after a failure
 * there is none. Refuses a file that is there already, and a schema that is not up to date.
 */
export async function takeSnapshot(db: Db, file: string): Promise<Snapshot> {
  await refuseOldSchema(db);
  const partial = `${file}.partial`;
  await rm(partial, { force: true });
  try {
    if (db.backend.dialect.name === 'sqlite') await sql`vacuum into ${partial}`.execute(db);
    else await copyToFile(db, partial);
    await withFile(partial, forgetSurroundings);
    const snapshot = await withFile(partial, summarize);
    await putInPlace(partial, file);
    return snapshot;
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
}

/** Whoever starts from a snapshot has a data folder of their own, and nobody holds anything in it. */
async function forgetSurroundings(db: Db): Promise<void> {
  await clearDataFolderId(db);
  await releaseAllLeases(db);
}

/** One snapshot of PostgreSQL's own, which no writer waits for. */
async function copyToFile(db: Db, file: string): Promise<void> {
  await withFile(file, async (target) => {
    const readOnly = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only');
    await runWithoutRetry(db, readOnly, (from) => inTransaction(target, (to) => copyTables(from, to)));
  });
}

/**
 * Fills an empty database from a snapshot, in one transaction: after a failure it is as empty as before. A snapshot of
 * an older Bursar is brought up to date on the way, in a copy; the file itself is only read. The folder has room for it.
 */
export async function restoreSnapshot(file: string, db: Db, folder: string): Promise<Snapshot> {
  const work = await mkdtemp(join(folder, 'restoring-'));
  const copy = join(work, 'snapshot.db');
  try {
    await copyFile(file, copy).catch((cause) => {
      throw new BursarError('not_found', `Cannot read ${file}: ${(cause as Error).message}`, { cause });
    });
    await refuseStrangers(copy, file);
    return await withFile(copy, async (from) => {
      const expected = await summarize(from);
      return await inTransaction(db, async (to) => {
        await refuseUsed(to);
        await copyTables(from, to);
        const filled = await summarize(to);
        if (JSON.stringify(filled) !== JSON.stringify(expected)) {
          throw new Error('the copy is not what was copied, and has been taken back');
        }
        return filled;
      });
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function summarize(db: Db): Promise<Snapshot> {
  const counts = await countRows(db);
  const rows = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return { rows, verification: await verifyLedger(db) };
}

async function withFile<T>(file: string, use: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDatabase(settingsOf(file), '.');
  try {
    return await use(db);
  } finally {
    await db.destroy();
  }
}

async function refuseOldSchema(db: Db): Promise<void> {
  const { pending } = await getSchemaStatus(db);
  if (pending.length === 0) return;
  throw new BursarError('conflict', 'The schema of the database is not up to date. Run "bursar db migrate" first.');
}

async function refuseUsed(db: Db): Promise<void> {
  const used = [...(await countRows(db))].find(([, count]) => count > 0);
  if (used === undefined) return;
  throw new BursarError(
    'conflict',
    `The target is not empty: its table ${used[0]} has ${used[1]} rows. Use a new database.`,
  );
}

/** A file that is no database, or one of somebody else's, would be restored as books without anything in them. */
async function refuseStrangers(copy: string, file: string): Promise<void> {
  let applied = 0;
  try {
    const db = connectDatabase(settingsOf(copy), '.');
    applied = (await getSchemaStatus(db).finally(() => db.destroy())).applied.length;
  } catch {
    // Then it is none.
  }
  if (applied === 0) throw new BursarError('invalid_argument', `${file} is no backup of Bursar.`);
}

async function putInPlace(partial: string, file: string): Promise<void> {
  const handle = await open(partial, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(partial, file);
}
