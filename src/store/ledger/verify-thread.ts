/** The thread that proves a ledger: it is handed the books, and sends one answer. */
import { parentPort, workerData } from 'node:worker_threads';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { connectDatabase, type DatabaseSettings } from '../database/database.ts';
import type { Db } from '../database/handle.ts';
import { type LedgerVerification, verifyLedger } from './verify-ledger.ts';

export interface ThreadInput {
  settings: DatabaseSettings;
  dataFolder: string;
}

/** Between threads an error does not stay what it is. */
export type ThreadResult = { proof: LedgerVerification } | { code: ErrorCode; message: string };

async function prove(db: Db): Promise<ThreadResult> {
  try {
    return { proof: await verifyLedger(db) };
  } catch (error) {
    if (error instanceof BursarError) return { code: error.code, message: error.message };
    throw error;
  }
}

const { settings, dataFolder } = workerData as ThreadInput;
const db = connectDatabase(settings, dataFolder);
parentPort?.postMessage(await prove(db));
await db.destroy();
