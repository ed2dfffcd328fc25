import { once } from 'node:events';
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads';
import { openDatabase } from './database.ts';
import { type LedgerProof, proveLedger } from './ledger-proof.ts';

interface Books {
  url: string;
  dataFolder: string;
}

/** Proves the ledger on a thread and a connection of its own: adding up a million entries must keep nobody waiting. */
export async function proveAside(books: Books): Promise<LedgerProof> {
  const worker = new Worker(new URL(import.meta.url), { workerData: books });
  const [proof] = (await once(worker, 'message')) as [LedgerProof];
  return proof;
}

if (!isMainThread && parentPort !== null) {
  const { url, dataFolder } = workerData as Books;
  const db = openDatabase(url, dataFolder);
  parentPort.postMessage(await proveLedger(db));
  await db.destroy();
}
