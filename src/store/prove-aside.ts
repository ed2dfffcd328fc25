import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { BursarError, type ErrorCode } from '../domain/errors.ts';
import { type DatabaseSettings, openDatabase } from './database.ts';
import { type LedgerProof, proveLedger } from './ledger-proof.ts';
import type { Db } from './tables.ts';

interface Books {
  settings: DatabaseSettings;
  dataFolder: string;
}

/** Proves the ledger on a thread and a connection of its own: adding up a million entries must keep nobody waiting. */
export async function proveAside(settings: DatabaseSettings, dataFolder: string): Promise<LedgerProof> {
  const books: Books = { settings: { ...settings, connections: 1, statementTimeoutSeconds: 0 }, dataFolder };
  const worker = new Worker(new URL(import.meta.url), { workerData: books });
  const [answer] = (await once(worker, 'message')) as [Answer];
  if ('proof' in answer) return answer.proof;
  throw new BursarError(answer.code, answer.message, { transient: true });
}

/** Between threads an error does not stay what it is. */
type Answer = { proof: LedgerProof } | { code: ErrorCode; message: string };

async function prove(db: Db): Promise<Answer> {
  try {
    return { proof: await proveLedger(db) };
  } catch (error) {
    if (error instanceof BursarError) return { code: error.code, message: error.message };
    throw error;
  }
}

if (!isMainThread && parentPort !== null) {
  const { settings, dataFolder } = workerData as Books;
  const db = openDatabase(settings, dataFolder);
  parentPort.postMessage(await prove(db));
  await db.destroy();
}
