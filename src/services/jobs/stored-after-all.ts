import { setTimeout as sleep } from 'node:timers/promises';
import { BursarError } from '../../domain/errors.ts';
import type { Db } from '../../store/database/handle.ts';
import { inTransaction } from '../../store/database/transaction.ts';
import { findJobJson } from '../../store/jobs/job-lists.ts';
import { type AccountSet, lockAccount } from '../../store/ledger/accounts.ts';

const looks = 10;
const pauseMs = 500;

/**
 * After a submission that failed: the public JSON of the job if it is in the books all the same, undefined if it is
 * certain that it is not and never will be. Throws when nobody can tell, because the database stays away: then the zip
 * must stay, for the job may be there.
 */
export async function storedAfterAll(
  db: Db,
  jobId: string,
  accounts: AccountSet,
  error: unknown,
): Promise<string | undefined> {
  // Our own refusals come before the commit.
  if (error instanceof BursarError && error.code !== 'database_unavailable') return undefined;
  for (let look = 1; look <= looks; look++) {
    try {
      return await inTransaction(db, async (tx) => {
        // A submission holds its pool until it is decided. Who has the pool knows that it is.
        await lockAccount(tx, accounts.timePool.id);
        return await findJobJson(tx, {}, jobId);
      });
    } catch {
      await sleep(pauseMs);
    }
  }
  const message =
    'The database went away while the job was being stored, so it is not known whether it was. ' +
    'Look at the list of your jobs before you send it again, or send it again under its Idempotency-Key.';
  throw new BursarError('database_unavailable', message, { cause: error, transient: true });
}
