/** The thread that proves a ledger: it is handed the books, and sends one answer. */
import { parentPort, workerData } from 'node:worker_threads';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { type DatabaseSettings, openDatabase } from '../database/database.ts';
import type { Db } from '../database/tables.ts';
import { type LedgerProof, proveLedger } from './verify-ledger.ts';

export interface Books {
  settings: DatabaseSettings;
  dataFolder: string;
}

/** Between threads an error does not stay what it is. */
export type Answer = { proof: LedgerProof } | { code: ErrorCode; message: string };

async function prove(db: Db): Promise<Answer> {
  try {
    return { proof: await proveLedger(db) };
  } catch (error) {
    if (error instanceof BursarError) return { code: error.code, message: error.message };
    throw error;
  }
}

const { settings, dataFolder } = workerData as Books;
const db = openDatabase(settings, dataFolder);
parentPort?.postMessage(await prove(db));
await db.destroy();
