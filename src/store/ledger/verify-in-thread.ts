import { once } from 'node:events';
import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import { BursarError } from '../../domain/errors.ts';
import type { DatabaseSettings } from '../database/database.ts';
import type { LedgerVerification } from './verify-ledger.ts';
import type { ThreadInput, ThreadResult } from './verify-thread.ts';

/** Verifies the ledger in its own thread and connection, so that summing up a million entries does not block requests. */
export async function verifyLedgerInThread(
  settings: DatabaseSettings,
  dataFolder: string,
): Promise<LedgerVerification> {
  const input: ThreadInput = { settings: { ...settings, connections: 1, statementTimeoutMs: 0 }, dataFolder };
  // The same extension as this file: `.ts` in the source, `.cjs` in the build.
  const thread = new URL(`./verify-thread${extname(import.meta.url)}`, import.meta.url);
  const worker = new Worker(thread, { workerData: input });
  const [result] = (await once(worker, 'message')) as [ThreadResult];
  if ('verification' in result) return result.verification;
  throw new BursarError(result.code, result.message, { transient: true });
}
