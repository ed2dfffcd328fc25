import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { BursarError } from '../../domain/errors.ts';
import type { DatabaseSettings } from '../database/database.ts';
import type { LedgerVerification } from './verify-ledger.ts';
import type { ThreadInput, ThreadResult } from './verify-thread.ts';

/** Proves the ledger on a thread and a connection of its own: adding up a million entries must keep nobody waiting. */
export async function verifyLedgerInThread(
  settings: DatabaseSettings,
  dataFolder: string,
): Promise<LedgerVerification> {
  const books: ThreadInput = { settings: { ...settings, connections: 1, statementTimeoutSeconds: 0 }, dataFolder };
  // Beside this file, and built like it.
  const thread = new URL(`./verify-thread${extname(import.meta.url)}`, import.meta.url);
  const worker = new Worker(thread, { workerData: books });
  const [answer] = (await once(worker, 'message')) as [ThreadResult];
  if ('proof' in answer) return answer.proof;
  throw new BursarError(answer.code, answer.message, { transient: true });
}
