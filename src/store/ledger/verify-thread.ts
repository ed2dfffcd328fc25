/** The worker thread of `verifyLedgerInThread`. It opens its own connection and posts one result. */
import { parentPort, workerData } from 'node:worker_threads';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import { connectDatabase, type DatabaseSettings } from '../database/database.ts';
import { type LedgerVerification, verifyLedger } from './verify-ledger.ts';

export interface ThreadInput {
  settings: DatabaseSettings;
  dataFolder: string;
}

/** Errors lose their class when they are posted between threads. */
export type ThreadResult = { verification: LedgerVerification } | { code: ErrorCode; message: string };

async function verify({ settings, dataFolder }: ThreadInput): Promise<ThreadResult> {
  await using db = connectDatabase(settings, dataFolder);
  try {
    return { verification: await verifyLedger(db) };
  } catch (error) {
    if (error instanceof BursarError) return { code: error.code, message: error.message };
    throw error;
  }
}

void verify(workerData).then((result) => parentPort?.postMessage(result));
