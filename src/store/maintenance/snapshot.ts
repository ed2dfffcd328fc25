import { copyFile, mkdtemp, open, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { sql } from 'kysely';
import { BursarError, errnoCode } from '../../domain/errors.ts';
import { connectDatabase, openDatabase } from '../database/database.ts';
import type { Db } from '../database/handle.ts';
import { getSchemaStatus } from '../database/migrations.ts';
import { inSnapshot, inTransaction, runWithoutRetry } from '../database/transaction.ts';
import { type AuditVerification, verifyAudit } from '../identity/verify-audit.ts';
import { countPossibleTry } from '../jobs/job-queue.ts';
import { type LedgerVerification, verifyLedger } from '../ledger/verify-ledger.ts';
import { releaseAllLeases } from '../systems/leases.ts';
import { copyTables, countRows, digestTables, findDifferentTables, type TableDigests } from './copy-tables.ts';
import { clearDataFolderId } from './data-folder.ts';

/**
 * A snapshot is one SQLite file with the state of either database at one time. So a backup of one kind of database can be
 * restored to the other, and a move from one to the other is a backup and a restore.
 */
export interface Snapshot {
  /** The number of rows of all tables. */
  rows: number;
  ledger: LedgerVerification;
}

/** A snapshot whose rows were restored to a database, compared there row by row, and checked. */
export interface RestoredSnapshot extends Snapshot {
  audit: AuditVerification;
}

/** With the audit trail if the snapshot was verified. */
export type TakenSnapshot = Snapshot & Partial<RestoredSnapshot>;

const sqliteSettings = (file: string) => ({ url: `sqlite:${resolve(file)}` });

/**
 * Writes a snapshot while the database stays in use. After success the file is complete and synced, and only its owner can
 * read it; with `verify`, it was restored and compared, and the result is that of `verifySnapshot`. After a failure there is
 * no file. Throws if the schema is not up to date.
 */
export async function takeSnapshot(db: Db, file: string, options?: { verify: boolean }): Promise<TakenSnapshot> {
  await requireCurrentSchema(db);
  const partial = `${file}.partial`;
  await createPartial(partial);
  try {
    if (db.backend.dialect.name === 'sqlite') await sql`vacuum into ${partial}`.execute(db);
    else await copyToFile(db, partial);
    await withSqliteFile(partial, detachFromInstances);
    const snapshot = options?.verify ? await verifySnapshot(partial) : await withSqliteFile(partial, summarize);
    await syncAndRename(partial, file);
    return snapshot;
  } catch (error) {
    for (const suffix of ['', '-wal', '-shm', '-journal']) await rm(partial + suffix, { force: true });
    throw error;
  }
}

/**
 * Creates an empty file, which SQLite fills and whose mode it keeps. Two backups to the same file must not mix: the second
 * one would replace the file that the first one has verified.
 */
async function createPartial(partial: string): Promise<void> {
  await writeFile(partial, '', { flag: 'wx', mode: 0o600 }).catch((cause) => {
    if (errnoCode(cause) !== 'EEXIST') throw cause;
    const message = `${partial} exists: another backup is being written, or one was interrupted. Then remove this file.`;
    throw new BursarError('conflict', message, { cause });
  });
}

/**
 * Removes the data folder id and the leases: an instance on the snapshot has its own data folder. Waiting jobs may be
 * submitted after the snapshot: an instance on it asks their engine before it submits them.
 */
async function detachFromInstances(db: Db): Promise<void> {
  await clearDataFolderId(db);
  await releaseAllLeases(db);
  await countPossibleTry(db);
}

/** Copies a repeatable-read snapshot of PostgreSQL, which blocks no writer. */
async function copyToFile(db: Db, file: string): Promise<void> {
  await withSqliteFile(file, async (target) => {
    const read = await inSnapshot(db, (from) => inTransaction(target, (to) => copyTables(from, to)));
    requireEqual(read, await digestTables(target), 'the database');
  });
}

/**
 * Fills an empty database from a snapshot in one transaction: after a failure it is still empty. The snapshot is copied
 * into `folder` and there migrated to the latest schema; the file itself is only read. After success the database has the
 * rows of the snapshot.
 */
export async function restoreSnapshot(file: string, db: Db, folder: string): Promise<RestoredSnapshot> {
  const workFolder = await mkdtemp(join(folder, 'restoring-'));
  const copy = join(workFolder, 'snapshot.db');
  try {
    await requireComplete(file);
    await copyFile(file, copy).catch((cause) => {
      throw new BursarError('not_found', `Cannot read ${file}: ${(cause as Error).message}`, { cause });
    });
    await requireSnapshot(copy, file);
    return await withSqliteFile(copy, async (from) =>
      // Without retries: a conflict on an empty database means that another process writes to it, or that the snapshot is
      // not consistent, and copying it again takes as long.
      runWithoutRetry(db, db.transaction(), async (to) => {
        await requireEmpty(to);
        const read = await copyTables(from, to);
        requireEqual(read, await digestTables(to), 'the snapshot');
        return { ...(await summarize(to)), audit: await verifyAudit(to) };
      }),
    );
  } finally {
    await rm(workFolder, { recursive: true, force: true });
  }
}

/**
 * Restores a snapshot into a temporary SQLite database beside the file, and removes that again. Throws if the file is
 * damaged, or if the rows of the restored database differ.
 */
export async function verifySnapshot(file: string): Promise<RestoredSnapshot> {
  const folder = await mkdtemp(join(dirname(file), temporaryFolderPrefix)).catch((cause) => {
    const message = `Cannot create a folder beside ${file} for the restored database: ${(cause as Error).message}`;
    throw new BursarError('not_found', message, { cause });
  });
  try {
    return await withSqliteFile(join(folder, 'restored.db'), (db) => restoreSnapshot(file, db, folder));
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** The temporary folder of a verification. One that remains after a crash can be removed. */
const temporaryFolderPrefix = '.bursar-verifying-';

function requireEqual(expected: TableDigests, found: TableDigests, source: string): void {
  const tables = findDifferentTables(expected, found);
  if (tables.length === 0) return;
  throw new BursarError(
    'conflict',
    `The copy differs from ${source} in the tables ${tables.join(', ')}. Nothing was kept.`,
  );
}

async function summarize(db: Db): Promise<Snapshot> {
  const counts = await countRows(db);
  const rows = [...counts.values()].reduce((sum, count) => sum + count, 0);
  return { rows, ledger: await verifyLedger(db) };
}

async function withSqliteFile<T>(file: string, use: (db: Db) => Promise<T>): Promise<T> {
  await using db = await openDatabase(sqliteSettings(file), '.');
  return await use(db);
}

async function requireCurrentSchema(db: Db): Promise<void> {
  const { applied, pending } = await getSchemaStatus(db);
  if (applied.length === 0)
    throw new BursarError(
      'conflict',
      'The database is empty. Check that it is the right one: BURSAR_DATA, BURSAR_DATABASE_URL.',
    );
  if (pending.length === 0) return;
  throw new BursarError(
    'conflict',
    'The schema of the database is not up to date. Before an upgrade, back up with the version that is in use; after it, ' +
      'run "bursar db migrate" first.',
  );
}

async function requireEmpty(db: Db): Promise<void> {
  const used = [...(await countRows(db))].find(([, count]) => count > 0);
  if (used === undefined) return;
  throw new BursarError(
    'conflict',
    `The target is not empty: its table ${used[0]} has ${used[1]} rows. Use a new database.`,
  );
}

/** The last changes of a SQLite database that is in use, or was killed, are in a second file, which is not copied. */
async function requireComplete(file: string): Promise<void> {
  const { size } = await stat(`${file}-wal`).catch(() => ({ size: 0 }));
  if (size === 0) return;
  const message = `${file} is a database in use, not a backup: ${file}-wal has changes of it. Write one with "bursar db backup".`;
  throw new BursarError('invalid_argument', message);
}

/** Any other file, or the database of another program, would be restored as an empty database. */
async function requireSnapshot(copy: string, file: string): Promise<void> {
  let applied = 0;
  let damage: string | undefined;
  try {
    await using db = connectDatabase(sqliteSettings(copy), '.');
    damage = await findDamage(db);
    applied = damage === undefined ? (await getSchemaStatus(db)).applied.length : 1;
  } catch {
    // Not a SQLite file.
  }
  if (applied === 0)
    throw new BursarError(
      'invalid_argument',
      `${file} is not a Bursar backup. Name a file that "bursar db backup" wrote.`,
    );
  if (damage !== undefined)
    throw new BursarError('invalid_argument', `${file} is damaged: ${damage}. Use another backup.`);
}

async function findDamage(db: Db): Promise<string | undefined> {
  try {
    const { rows } = await sql<{ integrityCheck: string }>`pragma integrity_check(1)`.execute(db);
    return rows[0]?.integrityCheck === 'ok' ? undefined : rows[0]?.integrityCheck;
  } catch (error) {
    return (error as Error).message;
  }
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
