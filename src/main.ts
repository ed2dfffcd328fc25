import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { startApi } from './composition/api.ts';
import { type InstanceDatabase, openInstanceDatabase, type Role } from './composition/database.ts';
import { createDependencies } from './composition/dependencies.ts';
import { startWorker } from './composition/worker.ts';
import type { Config } from './config/schema.ts';
import { syncProjects } from './services/identity/enrolment.ts';
import type { Db } from './store/database/handle.ts';
import { cleanUpSpool } from './workers/cleanup.ts';

/** A Bursar that is ready to listen. */
export interface Bursar {
  app: FastifyInstance;
  db: Db;
  /** Answers what is under way, lets the lifecycle finish its rounds, closes the books. Running jobs go on. */
  stop(): Promise<void>;
}

/** The composition root: everything is made from here, once, and handed to whoever needs it. */
export async function startBursar(config: Config, role: Role, log: Logger, version: string): Promise<Bursar> {
  const books = await openInstanceDatabase(config, role);
  try {
    return await compose(config, books, role, log, version);
  } catch (error) {
    await books.close();
    throw error;
  }
}

async function compose(
  config: Config,
  books: InstanceDatabase,
  role: Role,
  log: Logger,
  version: string,
): Promise<Bursar> {
  const parts = createDependencies(config, books, version, log);
  const { db, spool, sites } = parts;
  await syncProjects(db, config, parts.now());
  await spool.open();
  await cleanUpSpool(db, spool, books.staleAtStartMs);
  const worker = role === 'api' ? undefined : await startWorker(parts);
  const api = await startApi(parts, role !== 'worker');
  return {
    app: api.app,
    db,
    async stop() {
      await api.stop();
      await worker?.stop();
      await Promise.all(sites.map(({ shell }) => shell?.close()));
      await books.close();
    },
  };
}
