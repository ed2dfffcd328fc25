import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import Sqlite from 'better-sqlite3';
import { sql } from 'kysely';
import { BursarError } from '../domain/errors.ts';
import { dialectOf } from './dialect.ts';
import type { Db } from './tables.ts';

/**
 * Makes sure that one server at a time works on a data folder: two would run each other's jobs. The lock is an
 * exclusive transaction on a file of its own, which the kernel ends with the process, however it ends; so a
 * restart after a SIGKILL need not wait for anything to time out.
 */
export function lockDataFolder(dataFolder: string): () => void {
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 });
  const database = new Sqlite(join(dataFolder, 'server.lock'), { timeout: 2000 });
  try {
    database.exec('begin exclusive');
  } catch (cause) {
    database.close();
    throw new BursarError(
      'data_in_use',
      `Another Bursar is serving from ${dataFolder}. Stop it first, or choose another folder with BURSAR_DATA.`,
      { cause },
    );
  }
  return () => database.close();
}

const lockNumber = 6_287_727;
const checkMs = 1000;
const patienceMs = 5000;

/**
 * The same for a database that servers on other data folders and machines can reach. The server ends the lock with the
 * connection; when the database was away and somebody else has it now, `onTaken` is called.
 */
export async function lockDatabase(db: Db, onTaken: () => void): Promise<() => Promise<void>> {
  if (dialectOf(db).name === 'sqlite') return async () => undefined;
  const stopping = new AbortController();
  const pause = () => sleep(checkMs, undefined, { signal: stopping.signal }).catch(() => undefined);
  const first = Promise.withResolvers<void>();
  let held = false;

  async function hold(): Promise<void> {
    await db.connection().execute(async (connection) => {
      await take(connection);
      held = true;
      first.resolve();
      while (!stopping.signal.aborted) {
        await pause();
        await sql`select 1`.execute(connection);
      }
      await sql`select pg_advisory_unlock(${sql.lit(lockNumber)})`.execute(connection);
    });
  }
  async function holdOn(): Promise<void> {
    while (!stopping.signal.aborted) {
      try {
        await hold();
      } catch (error) {
        if (!held) return first.reject(error);
        if (error instanceof BursarError && error.code === 'data_in_use') return onTaken();
        await pause();
      }
    }
  }
  const holding = holdOn();
  await first.promise;
  return async () => {
    stopping.abort();
    await holding;
  };
}

/** Waits a little: the connection of a server that was killed takes a moment to end. */
async function take(connection: Db): Promise<void> {
  const deadline = Date.now() + patienceMs;
  for (;;) {
    const { rows } = await sql<{ taken: boolean }>`
      select pg_try_advisory_lock(${sql.lit(lockNumber)}) as taken`.execute(connection);
    if (rows[0]?.taken === true) return;
    if (Date.now() > deadline) {
      throw new BursarError(
        'data_in_use',
        'Another Bursar is serving from this database. Stop it first, or use another database.',
      );
    }
    await sleep(100);
  }
}
