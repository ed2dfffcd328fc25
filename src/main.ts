import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Api, createApi } from './composition/api.ts';
import { openInstanceDatabase, type Role } from './composition/database.ts';
import { observeDatabase } from './composition/database-metrics.ts';
import { createDependencies, type Dependencies } from './composition/dependencies.ts';
import { findExposedConfigFile, readConfiguredIsolation, resolveIsolation } from './composition/isolation.ts';
import { createSystemBackend } from './composition/systems.ts';
import { openTracing } from './composition/tracing.ts';
import { defaultTuning, type Tuning } from './composition/tuning.ts';
import { startWorker } from './composition/worker.ts';
import type { Config } from './config/schema.ts';
import { notIsolatedWarning } from './domain/systems/isolation.ts';
import { type Certificate, readCertificate } from './http/server/certificate.ts';
import { createMetrics } from './metrics/metrics.ts';
import { syncProjects } from './services/identity/enrolment.ts';
import type { Db } from './store/database/handle.ts';
import { createDataFolder } from './store/maintenance/data-folder.ts';
import { cleanUpSpool } from './workers/cleanup.ts';
import { startStorageMonitor } from './workers/storage-monitor.ts';

/** An instance that is ready to listen. */
export interface Bursar extends Api {
  db: Db;
  /** The systems whose jobs are not isolated, with the reason. */
  notIsolated: ReadonlyMap<string, string>;
  /**
   * Finishes requests in progress and aborts the work of the workers, both for at most `server.drainSeconds`, and closes
   * the database. Running jobs go on.
   */
  stop(): Promise<void>;
}

/** For tests. */
export interface StartOptions {
  tuning?: Tuning;
  createBackend?: typeof createSystemBackend;
  findIsolation?: typeof resolveIsolation;
}

/** The composition root: creates every component once and passes it to the components that need it. */
export async function startBursar(
  config: Config,
  role: Role,
  log: Logger,
  version: string,
  { tuning = defaultTuning, createBackend = createSystemBackend, findIsolation = resolveIsolation }: StartOptions = {},
): Promise<Bursar> {
  const certificate = config.server.tls && readCertificate(config.server.tls);
  const isolations = role === 'api' ? readConfiguredIsolation(config) : findIsolation(config);
  const notIsolated = new Map(
    [...isolations].flatMap(([hpc, { inEffect }]) => (inEffect.kind === 'none' ? [[hpc, inEffect.reason]] : [])),
  );
  for (const [hpc, reason] of notIsolated) log.warn({ hpc, reason }, notIsolatedWarning(hpc));
  const exposedFile = findExposedConfigFile(config, isolations);
  if (exposedFile !== null) log.warn({ file: exposedFile }, exposedConfigWarning);
  const dataFolder = resolve(config.data);
  if (createDataFolder(dataFolder))
    log.warn({ dataFolder }, 'the data folder was open to other users; its mode is now 0700');
  const metrics = createMetrics(version);
  const database = await openInstanceDatabase(config, role, observeDatabase(metrics), tuning);
  try {
    const tracing = await openTracing(config, { metrics, version, instanceId: `${hostname()}/${process.pid}`, log });
    const options = { config, tuning, isolations, database, metrics, tracing, version, log, createBackend };
    const parts = await compose(createDependencies(options), certificate, role);
    return { ...parts, notIsolated };
  } catch (error) {
    await database.close();
    throw error;
  }
}

const exposedConfigWarning =
  'the configuration file is in a folder that jobs can read: it is hidden, but a job that runs while the file is replaced sees ' +
  'the new one. Move it to a folder of its own, such as /var/lib/bursar, and set BURSAR_CONFIG';

/** The last spans are lost if the collector takes longer. */
const maxFlushMs = 2000;

async function compose(
  deps: Dependencies,
  certificate: Certificate | undefined,
  role: Role,
): Promise<Omit<Bursar, 'notIsolated'>> {
  const { config, database, db, spool, systemBackends, tracing } = deps;
  await syncProjects(db, config, deps.now());
  await spool.open();
  await cleanUpSpool(db, spool, database.staleAtStartMs);
  const storage = startStorageMonitor(deps);
  const worker = role === 'api' ? undefined : await startWorker(deps);
  const api = await createApi({ ...deps, certificate, storageProblem: storage.problem }, role !== 'worker');
  return {
    ...api,
    db,
    async stop() {
      // At the same time: a request that hangs must not delay the release of the leases.
      await Promise.all([api.stop(), worker?.stop()]);
      // Bounded: a local file system that hangs cannot be interrupted.
      const drained = sleep(config.server.drainSeconds * 1000, undefined, { ref: false });
      await Promise.race([Promise.all([deps.fileRemover.stop(), storage.stop()]), drained]);
      await Promise.all(systemBackends.map(({ shell }) => shell?.close()));
      await tracing?.stop(maxFlushMs);
      await database.close();
    },
  };
}
