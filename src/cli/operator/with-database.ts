import { resolve } from 'node:path';
import type { Config } from '../../config/schema.ts';
import { syncProjects } from '../../services/identity/enrolment.ts';
import { openDatabase } from '../../store/database/database.ts';
import type { Db } from '../../store/database/handle.ts';

/** Opens the database for one command. A server may be using the database at the same time. */
export async function withDatabase<T>(config: Config, use: (db: Db) => Promise<T>): Promise<T> {
  const db = await openDatabase(config.database, resolve(config.data));
  try {
    await syncProjects(db, config, Date.now());
    return await use(db);
  } finally {
    await db.destroy();
  }
}
