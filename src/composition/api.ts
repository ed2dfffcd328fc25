import { Server as TlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import { createSlots } from '../domain/slots.ts';
import type { StorageProblem } from '../domain/systems/health.ts';
import { notIsolatedWarning } from '../domain/systems/isolation.ts';
import { msPerDay, msPerMinute } from '../domain/units.ts';
import { createInputCheck } from '../files/zip/check-input.ts';
import { type Certificate, createCertificateReload } from '../http/server/certificate.ts';
import { createRequestMetrics } from '../http/server/served-request.ts';
import { closeServer, createServer, type ServerDeps } from '../http/server/server.ts';
import { createEventFeed, type EventFeed } from '../services/events/event-feed.ts';
import { createAbandonedClaims } from '../services/idempotency.ts';
import { createOidcClients } from '../services/identity/oidc/clients.ts';
import { createOidcVerifier } from '../services/identity/oidc/verifier.ts';
import { createRefusalRecorder } from '../services/identity/refusal-recorder.ts';
import { createLogFeeds } from '../services/jobs/log-feed.ts';
import type { ServiceDeps } from '../services/service-deps.ts';
import { createGaugeUpdater } from '../services/systems/update-gauges.ts';
import { pingDatabase } from '../store/database/database.ts';
import type { Db } from '../store/database/handle.ts';
import { findSchemaDifferences } from '../store/database/schema-check.ts';
import { verifyLedgerInThread } from '../store/ledger/verify-in-thread.ts';
import { countDelayedJobs } from '../store/systems/backlog.ts';
import { updatePoolGauges } from './database-metrics.ts';
import type { Dependencies } from './dependencies.ts';

export interface ApiDependencies extends Dependencies {
  /** Undefined if Bursar itself does not speak TLS. */
  certificate: Certificate | undefined;
  storageProblem(): StorageProblem | null;
}

export interface Api {
  app: FastifyInstance;
  /** The server of the metrics, if they have a port of their own. */
  metricsApp: FastifyInstance | undefined;
  /** See `createCertificateReload`. Undefined if Bursar itself does not speak TLS. */
  reloadCertificate: (() => object) | undefined;
  stop(): Promise<void>;
}

/** The build puts the packages and the web page beside the program. The sources have none. */
const builtFolder = (name: string) =>
  import.meta.url.endsWith('.cjs') ? fileURLToPath(new URL(`./${name}/`, import.meta.url)) : null;

/** Creates the HTTP server. Without `servesCallers` it has only the probes and the metrics. */
export async function createApi(deps: ApiDependencies, servesCallers: boolean): Promise<Api> {
  const { config, tuning, db, systems, userTopic, metrics, now, log } = deps;
  const { server } = config;
  const eventFeed = createEventFeed({ db, userTopic, pollMs: tuning.eventIntervalMs, log });
  const refusals = createRefusalRecorder({ db, now, log });
  const updateGauges = createGaugeUpdater(deps);
  const metricsOptions = {
    token: config.metrics.token,
    read: async () => {
      await updateGauges();
      updatePoolGauges(db, metrics);
      metrics.setGauge('bursar_storage_writable', {}, deps.storageProblem() === null ? 1 : 0);
      return await metrics.toPrometheusText();
    },
  };
  const hasMetricsPort = config.metrics.port !== undefined;
  const serverDeps: ServerDeps = {
    ...deps,
    servesCallers,
    logSampleRatio: config.log.sampleRatio,
    systems: [...systems.values()].map((system) => ({ system, defaultProject: defaultProject(config, system.name) })),
    requestTimeoutMs: server.requestTimeoutSeconds * 1000,
    heartbeatMs: tuning.heartbeatIntervalMs,
    trustProxy: server.trustProxy,
    limits: limitSettings(deps),
    registry: metrics,
    services: createServiceDeps(deps, eventFeed),
    publicUrl: server.publicUrl,
    webFolder: builtFolder('web'),
    findProblems: () => findProblems(deps),
    findWarnings: () => findWarnings(deps),
    metrics: hasMetricsPort ? null : metricsOptions,
    onServed: createRequestMetrics(metrics),
    onRefusedAccess: refusals.record,
  };
  const app = await createServer(serverDeps);
  const metricsApp = hasMetricsPort
    ? await createServer({ ...serverDeps, servesCallers: false, metrics: metricsOptions, registry: noMetrics })
    : undefined;
  const apps = metricsApp === undefined ? [app] : [app, metricsApp];
  const certificates = createServerCertificateReload(deps, apps);
  return {
    app,
    metricsApp,
    reloadCertificate: certificates?.reload,
    async stop() {
      certificates?.stop();
      await Promise.all(apps.map((each) => closeServer(each, server.drainSeconds * 1000)));
      await eventFeed.stop();
      await refusals.stop();
    },
  };
}

/** All servers use the same certificate. Connections that are open keep the one before. */
function createServerCertificateReload(
  { config, certificate, metrics, now, log }: ApiDependencies,
  apps: FastifyInstance[],
) {
  const { tls: files } = config.server;
  if (files === undefined || certificate === undefined) return undefined;
  const setExpiry = ({ validToMs }: Certificate) =>
    metrics.setGauge('bursar_tls_certificate_expiry_seconds', {}, validToMs / 1000);
  setExpiry(certificate);
  const onReplace = (next: Certificate) => {
    for (const { server } of apps) if (server instanceof TlsServer) server.setSecureContext(next.options);
    setExpiry(next);
  };
  return createCertificateReload({ files, certificate, log, now, onReplace });
}

function limitSettings({ config: { limits }, tuning }: Dependencies): ServerDeps['limits'] {
  const { rateWindowMs, maxOpenRequests, slowReaders } = tuning;
  return {
    rates: { ...limits, windowMs: rateWindowMs },
    openRequests: {
      upload: { perUser: limits.uploads, total: maxOpenRequests.upload },
      download: { perUser: limits.downloads, total: maxOpenRequests.download },
      log_follower: { perUser: limits.logFollowers, total: maxOpenRequests.log_follower },
      event_listener: { perUser: limits.eventListeners, total: maxOpenRequests.event_listener },
    },
    maxConnections: limits.connections,
    slowReaders,
  };
}

/** The gauges of connections are those of the API. */
const noMetrics = { setGauge: () => undefined, increment: () => undefined };

function defaultProject({ systems }: Dependencies['config'], hpc: string): string {
  return systems[hpc]?.projects[0]?.name ?? '';
}

function maxUnfinishedJobs({ systems, limits }: Dependencies['config'], hpc: string, name: string) {
  const settings = systems[hpc]?.projects.find((candidate) => candidate.name === name);
  return { user: limits.unfinishedJobs, project: settings?.unfinishedJobs ?? limits.projectUnfinishedJobs };
}

function publicInputLimits({ maxBodyBytes, zipLimits, maxVerifiedBytes }: Dependencies) {
  const { maxEntries, maxUnpackedBytes, maxRatio } = zipLimits;
  return {
    bytes: maxBodyBytes,
    entries: maxEntries,
    unpacked_bytes: maxUnpackedBytes,
    ratio: maxRatio,
    verified_bytes: maxVerifiedBytes,
  };
}

/** Of one user on one system. */
const maxOpeningFiles = 4;

export function createServiceDeps(deps: Omit<ApiDependencies, 'certificate'>, eventFeed: EventFeed): ServiceDeps {
  const { config, dataFolder } = deps;
  const providers = config.oidc;
  const oidcClients = createOidcClients();
  const { idleMinutes, maxDays } = config.sessions;
  return {
    ...deps,
    defaultProject: (hpc) => defaultProject(config, hpc),
    maxUnfinishedJobs: (hpc, project) => maxUnfinishedJobs(config, hpc, project),
    inputLimits: publicInputLimits(deps),
    checkInput: createInputCheck(deps),
    abandonedClaims: createAbandonedClaims(),
    wakeDispatcher: deps.systemTopic.publish,
    searches: createSlots({ perKey: 1 }),
    fileOpenings: createSlots({ perKey: maxOpeningFiles }),
    logFeeds: createLogFeeds(deps.metrics),
    eventFeed,
    endpointRules: config.webhooks,
    maxWebhooks: config.limits.webhooks,
    tokens: config.tokens,
    sessions: { idleMs: idleMinutes * msPerMinute, maxMs: maxDays * msPerDay },
    providers,
    oidcClients,
    oidc: createOidcVerifier(providers, oidcClients),
    verifyLedger: () => verifyLedgerInThread(config.database, dataFolder),
    clientsFolder: builtFolder('clients'),
  };
}

/** Reasons why this instance cannot serve. A system that is down is no reason: jobs can still be submitted to it. */
async function findProblems({ db, storageProblem }: ApiDependencies): Promise<string[]> {
  const storage = storageProblem()?.detail;
  return [await findDatabaseProblem(db), storage].filter((problem) => problem !== undefined);
}

async function findDatabaseProblem(db: Db): Promise<string | undefined> {
  if (!(await pingDatabase(db))) return 'The database does not respond.';
  const [difference] = await findSchemaDifferences(db);
  return difference && `The schema of the database has changed: ${difference}.`;
}

/** Names systems, not reasons: a probe needs no token. */
async function findWarnings({ db, systems, isolationOf }: Dependencies): Promise<string[]> {
  const delayed = await countDelayedJobs(db);
  const notIsolated = [...systems.keys()].filter((hpc) => isolationOf(hpc) === 'none');
  return [
    ...[...delayed].map(
      ([hpc, { count }]) => `jobs that cannot be submitted to ${hpc}: ${count}, see /admin/systems/${hpc}/`,
    ),
    ...notIsolated.map(notIsolatedWarning),
  ];
}
