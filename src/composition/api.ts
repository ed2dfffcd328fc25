import { randomUUID } from 'node:crypto';
import { Server as TlsServer } from 'node:tls';
import { fileURLToPath } from 'node:url';
import type { FastifyInstance } from 'fastify';
import type { StorageProblem } from '../domain/systems/health.ts';
import { notIsolatedWarning } from '../domain/systems/isolation.ts';
import { msPerDay, msPerMinute } from '../domain/units.ts';
import { type Certificate, createCertificateReload } from '../http/server/certificate.ts';
import { createRequestMetrics } from '../http/server/served-request.ts';
import { closeServer, createServer, type ServerDeps } from '../http/server/server.ts';
import { createAccountingService } from '../services/accounting/accounting-service.ts';
import { createAdminService } from '../services/accounting/admin-service.ts';
import { createClientPackages } from '../services/client-packages.ts';
import { createEventFeed, type EventFeed } from '../services/events/event-feed.ts';
import { createEventService } from '../services/events/event-service.ts';
import { createWebhookService } from '../services/events/webhooks.ts';
import { createAccessService } from '../services/identity/access.ts';
import { createAccountService } from '../services/identity/account.ts';
import { createAuditTrail } from '../services/identity/audit-trail.ts';
import { authenticate } from '../services/identity/authenticate.ts';
import { createDeviceFlow } from '../services/identity/device-flow.ts';
import { createOidcClients, type OidcClients } from '../services/identity/oidc/clients.ts';
import { createOidcVerifier } from '../services/identity/oidc/verifier.ts';
import { createOpenIdSignIn } from '../services/identity/openid-sign-in.ts';
import { createRefusalRecorder } from '../services/identity/refusal-recorder.ts';
import { createSessionService, type SessionDeps } from '../services/identity/sessions.ts';
import { createSignInLinkService } from '../services/identity/sign-in-links.ts';
import { createUserService } from '../services/identity/user-service.ts';
import { createFileService } from '../services/jobs/file-service.ts';
import { createJobService } from '../services/jobs/job-service.ts';
import { createSystemService } from '../services/systems/system-service.ts';
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
  const { config, tuning, db, systems, userTopic, metrics, now, log, version } = deps;
  const { server } = config;
  const feed = createEventFeed({ db, userTopic, pollMs: tuning.eventIntervalMs, log });
  const refusals = createRefusalRecorder({ db, now, log });
  const oidcClients = createOidcClients();
  const authentication = {
    ...sessionDeps(deps),
    oidc: createOidcVerifier(config.oidc, oidcClients),
    publishAccess: deps.accessTopic.publish,
  };
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
    servesCallers,
    log,
    tracing: deps.tracing,
    logSampleRatio: config.log.sampleRatio,
    version,
    systems: [...systems.values()].map((system) => ({ system, defaultProject: defaultProject(config, system.name) })),
    certificate: deps.certificate,
    requestTimeoutMs: server.requestTimeoutSeconds * 1000,
    heartbeatMs: tuning.heartbeatIntervalMs,
    trustProxy: server.trustProxy,
    limits: limitSettings(deps),
    registry: metrics,
    services: createServices(deps, feed, oidcClients),
    accessTopic: deps.accessTopic,
    authenticate: (credentials) => authenticate(authentication, credentials),
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
      await feed.stop();
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

function sessionDeps({ config, db, now }: Dependencies): SessionDeps {
  const { idleMinutes, maxDays } = config.sessions;
  return { db, idleMs: idleMinutes * msPerMinute, maxMs: maxDays * msPerDay, now };
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

export function createServices(deps: Omit<ApiDependencies, 'certificate'>, feed: EventFeed, oidcClients: OidcClients) {
  const { config, db, systems, dataFolder, userTopic, accessTopic, systemTopic, metrics, now } = deps;
  const common = {
    ...deps,
    defaultProject: (hpc: string) => defaultProject(config, hpc),
    maxUnfinishedJobs: (hpc: string, project: string) => maxUnfinishedJobs(config, hpc, project),
    newUuid: randomUUID,
    wakeDispatcher: systemTopic.publish,
  };
  return {
    access: createAccessService(db),
    users: createUserService({ db, providers: config.oidc, now, publishAccess: accessTopic.publish }),
    audit: createAuditTrail(db),
    account: createAccountService({ db, systems, tokens: config.tokens, now, publishAccess: accessTopic.publish }),
    sessions: createSessionService({ ...sessionDeps(deps), publishAccess: accessTopic.publish }),
    signInLinks: createSignInLinkService(sessionDeps(deps)),
    openIdSignIn: createOpenIdSignIn({
      ...sessionDeps(deps),
      providers: config.oidc,
      clients: oidcClients,
      publishAccess: accessTopic.publish,
    }),
    deviceFlow: createDeviceFlow({ db, tokens: config.tokens, now }),
    jobs: createJobService(common),
    files: createFileService(deps, metrics),
    accounting: createAccountingService(common),
    admin: createAdminService({
      db,
      systems,
      now,
      publish: userTopic.publish,
      verifyLedger: () => verifyLedgerInThread(config.database, dataFolder),
    }),
    systems: createSystemService({ ...common, inputLimits: publicInputLimits(deps) }),
    clients: createClientPackages(builtFolder('clients')),
    events: createEventService({ db, feed }),
    webhooks: createWebhookService({
      db,
      rules: config.webhooks,
      resolve: deps.resolveEndpoint,
      maxPerUser: config.limits.webhooks,
      secretKey: deps.secretKey,
      now,
      publish: userTopic.publish,
    }),
  };
}

/** Reasons why this instance cannot serve. A system that is down is no reason: jobs can still be submitted to it. */
async function findProblems({ db, storageProblem }: ApiDependencies): Promise<string[]> {
  const problem = storageProblem();
  return [...(await findDatabaseProblems(db)), ...(problem === null ? [] : [problem.detail])];
}

async function findDatabaseProblems(db: Db): Promise<string[]> {
  if (!(await pingDatabase(db))) return ['The database does not respond.'];
  const [difference] = await findSchemaDifferences(db);
  return difference === undefined ? [] : [`The schema of the database has changed: ${difference}.`];
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
