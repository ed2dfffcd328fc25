import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { resolve } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { toHpcSystems } from '../config/hpc-systems.ts';
import type { Config } from '../config/schema.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import { bytesPerKb } from '../domain/units.ts';
import type { SystemIsolation } from '../engines/definition.ts';
import { createSpool, spoolFolder } from '../files/spool/spool.ts';
import { createFileRemover } from '../files/workspaces/file-remover.ts';
import type { Metrics } from '../metrics/metrics.ts';
import { createTopic } from '../services/events/event-feed.ts';
import { createSpawnClient } from '../shell/spawn-client.ts';
import type { Tracing } from '../tracing/tracing.ts';
import { createEndpointResolver } from '../webhooks/endpoint.ts';
import { openSecretKey, toSecretKey } from '../webhooks/secrets.ts';
import { createSender } from '../webhooks/send.ts';
import type { InstanceDatabase } from './database.ts';
import type { createSystemBackend } from './systems.ts';
import type { Tuning } from './tuning.ts';

/** Of unpacked to packed size, against zip bombs. */
const maxZipRatio = 200;

/** The dependencies that the API and the workers share. */
export type Dependencies = ReturnType<typeof createDependencies>;

export interface DependencyOptions {
  config: Config;
  tuning: Tuning;
  isolations: ReadonlyMap<string, SystemIsolation>;
  database: InstanceDatabase;
  metrics: Metrics;
  tracing: Tracing | null;
  version: string;
  log: Logger;
  createBackend: typeof createSystemBackend;
}

export function createDependencies(options: DependencyOptions) {
  const { config, tuning, isolations, database, metrics, tracing, version, log, createBackend } = options;
  const dataFolder = resolve(config.data);
  const { maxEntries, maxUnpackedKb } = config.submissions;
  const { secretKey } = config.webhooks;
  const systems = toHpcSystems(config);
  const startProcess = createSpawnClient();
  const systemBackends = [...systems.values()].flatMap((system) => {
    const settings = config.systems[system.name];
    const isolation = isolations.get(system.name);
    if (settings === undefined || isolation === undefined) return [];
    const backendOptions = {
      settings,
      dataFolder,
      isolation,
      protectedFiles: database.lockedFiles,
      startProcess,
      onError: createErrorLog(log, system.name),
    };
    return { system, ...createBackend(system.name, backendOptions, metrics, tracing) };
  });
  const workspacesByHpc = new Map(systemBackends.map(({ system, workspaces }) => [system.name, workspaces]));
  const fileRemover = createFileRemover(workspacesByHpc, log);
  const resolveEndpoint = createEndpointResolver({ ...config.webhooks, nameServers: tuning.nameServers });
  return {
    config,
    tuning,
    database,
    db: database.db,
    dataFolder,
    version,
    spool: createSpool(spoolFolder(dataFolder), {
      onBytes: (bytes) => metrics.increment('bursar_upload_bytes_total', {}, bytes),
    }),
    zipLimits: { maxEntries, maxUnpackedBytes: maxUnpackedKb * bytesPerKb, maxRatio: maxZipRatio },
    maxVerifiedBytes: tuning.maxVerifiedBytes,
    maxBodyBytes: config.submissions.maxBodyKb * bytesPerKb,
    systems,
    systemBackends,
    workspacesByHpc,
    isolationOf: (hpc: string): Isolation['kind'] => isolations.get(hpc)?.inEffect.kind ?? 'none',
    fileRemover,
    removeFiles: fileRemover.remove,
    /** Published when there is something new for a user. */
    userTopic: createTopic('user', database.pgNotify),
    /** Published when the rights of a user may have become fewer: responses that are open end. */
    accessTopic: createTopic('access', database.pgNotify),
    /** Published when there is work for the workers of a system. */
    systemTopic: createTopic('system', database.pgNotify),
    secretKey: secretKey === undefined ? openSecretKey(dataFolder) : toSecretKey(secretKey),
    resolveEndpoint,
    sendWebhook: createSender({
      rules: config.webhooks,
      resolve: resolveEndpoint,
      timeoutMs: tuning.webhookTimeoutMs,
      userAgent: `Bursar/${version}`,
    }),
    /** Identifies this process in leases. */
    holder: `${hostname()}/${process.pid}/${randomUUID()}`,
    metrics,
    tracing,
    now: Date.now,
    log,
  };
}

/** Engines retry several times a second: a message that is repeated is logged once per minute. */
function createErrorLog(log: Logger, hpc: string): (message: string) => void {
  const recent = new LRUCache<string, true>({ max: 100, ttl: 60_000 });
  return (message) => {
    if (recent.has(message)) return;
    recent.set(message, true);
    log.warn({ hpc, error: message }, 'engine error, will retry');
  };
}
