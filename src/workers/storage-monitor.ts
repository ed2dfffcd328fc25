import type { StorageProblem } from '../domain/systems/health.ts';
import { probeFolder } from '../files/probe-folder.ts';
import type { Db } from '../store/database/handle.ts';
import { type Logger, startLoop } from './loop.ts';

export interface StorageMonitorDeps {
  db: Db;
  dataFolder: string;
  now(): number;
  log: Logger;
}

const probeIntervalMs = 5000;
/** While there is a problem: the server should be ready again soon after it is solved. */
const retryIntervalMs = 1000;

/**
 * Finds out whether the server can store data, for its probes and the status of its systems. Writes a file to the data
 * folder from time to time, because neither quotas nor a read-only disk show in the free space. A write to the database
 * that failed counts at once; then the database is written too, until that works again.
 */
export function startStorageMonitor({ db, dataFolder, now, log }: StorageMonitorDeps) {
  let current: StorageProblem | null = null;

  function report(error: unknown): void {
    if (current !== null) return;
    current = { since: now(), detail: (error as Error).message };
    log.error({ err: error }, 'the server cannot store data');
  }

  const loop = startLoop(async () => {
    try {
      await probeFolder(dataFolder);
      if (db.backend.lastWriteFailure() !== undefined) await db.backend.probeWrite(db);
      if (current !== null) log.info({ since: current.since }, 'the server can store data again');
      current = null;
      return probeIntervalMs;
    } catch (error) {
      report(error);
      return retryIntervalMs;
    }
  });

  return {
    /** Why the server cannot store data at the moment. Null if it can. */
    problem(): StorageProblem | null {
      const failure = db.backend.lastWriteFailure();
      if (failure !== undefined && current === null) {
        report(failure);
        loop.wake();
      }
      return current;
    },
    stop: loop.stop,
  };
}
