import { randomUUID } from 'node:crypto';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { hpcSystems } from './config/hpc-systems.ts';
import type { Config } from './config/schema.ts';
import { publicStatement } from './contract/ledger.ts';
import { createSpool } from './files/spool.ts';
import { buildServer } from './http/server.ts';
import { startAccountant } from './lifecycle/accountant.ts';
import { startJanitor } from './lifecycle/janitor.ts';
import { recover, sweepWorkspaces } from './lifecycle/recovery.ts';
import { startLifecycle } from './lifecycle/start.ts';
import { families } from './metrics/families.ts';
import { createMetrics } from './metrics/registry.ts';
import { refuseOthers } from './services/administration.ts';
import { administrationDesk } from './services/administration-desk.ts';
import { authenticate } from './services/authenticate.ts';
import { findDestination } from './services/destination.ts';
import { deleteFiles, endJob } from './services/end-job.ts';
import { syncProjects } from './services/enrolment.ts';
import { readOnce } from './services/idempotency.ts';
import { measure } from './services/measure.ts';
import { createOidcVerifier } from './services/oidc.ts';
import { pauseSystem } from './services/pause-system.ts';
import { publicQuote } from './services/quote.ts';
import { listJobs, readJob } from './services/read-jobs.ts';
import { checkAdministrator, listQuotas, readQuota } from './services/read-quotas.ts';
import { readSystems } from './services/read-systems.ts';
import { readStatement } from './services/statement.ts';
import { type SubmissionDeps, submitJob } from './services/submit-job.ts';
import { submitOnce } from './services/submit-once.ts';
import { readUsage } from './services/usage.ts';
import { migrate, openDatabase } from './store/database.ts';
import { lockDataFolder } from './store/instance-lock.ts';
import { proveAside } from './store/prove-aside.ts';
import type { Db } from './store/tables.ts';
import { makeSystem } from './systems.ts';

/** A Bursar that is ready to listen. */
export interface Bursar {
  app: FastifyInstance;
  db: Db;
  /** Answers what is under way, lets the lifecycle finish its rounds, closes the books. Running jobs go on. */
  stop(): Promise<void>;
}

const bytesPerKb = 1000;
const cancelPatienceMs = 10_000;

/** The composition root: everything is made here, once, and handed to whoever needs it. */
export async function startBursar(config: Config, log: Logger, version: string): Promise<Bursar> {
  const dataFolder = resolve(config.data);
  const unlock = lockDataFolder(dataFolder);
  const now = Date.now;
  const systems = hpcSystems(config);
  const spool = createSpool(join(dataFolder, 'spool'));
  const db = openDatabase(config.database.url, dataFolder);
  const { maxBodyKb, maxEntries, maxUnpackedKb, maxRatio } = config.submissions;
  const zipLimits = { maxEntries, maxUnpackedBytes: maxUnpackedKb * bytesPerKb, maxRatio };

  await migrate(db);
  await syncProjects(db, config, now());
  await recover(db, spool);

  const metrics = createMetrics(families);
  const leaseOwner = randomUUID();
  const common = { db, spool, zipLimits, leaseOwner, metrics, now, log };
  const workers = Object.entries(config.systems).flatMap(([name, settings]) => {
    const system = systems.get(name);
    if (system === undefined) return [];
    const parts = makeSystem(name, settings, dataFolder, metrics);
    return [{ ...common, ...parts, system, watchMs: settings.watchSeconds * 1000 }];
  });
  const workspacesOf = new Map(workers.map(({ system, workspaces }) => [system.name, workspaces]));
  await sweepWorkspaces(db, workspacesOf, log);
  const lifecycle = await startLifecycle(workers);

  const accountant = startAccountant({
    db,
    noticeDays: config.ledger.expiryNoticeDays,
    everyMs: config.ledger.calendarSeconds * 1000,
    now,
    log,
  });
  const destinations = {
    db,
    systems,
    defaultProject: (hpc: string) => config.systems[hpc]?.projects[0]?.name ?? '',
    now,
  };
  const submission: SubmissionDeps = {
    db,
    spool,
    zipLimits,
    maxBodyBytes: maxBodyKb * bytesPerKb,
    now,
    newUuid: randomUUID,
    wake: lifecycle.wake,
  };
  const endings = { db, systems, workspacesOf, now, wake: lifecycle.wake, patienceMs: cancelPatienceMs };
  const janitor = startJanitor({
    db,
    retentionDays: (hpc, name) => config.systems[hpc]?.projects.find((project) => project.name === name)?.retentionDays,
    noticeDays: config.retention.noticeDays,
    everyMs: config.retention.everySeconds * 1000,
    deleteJob: (job) =>
      deleteFiles(endings, job, { actor: 'bursar', reason: `files of ${job.jobId} were kept long enough` }),
    now,
    log,
  });
  const authentication = { db, oidc: createOidcVerifier(config.auth.oidc), now };
  const app = await buildServer({
    log,
    version,
    requestTimeoutMs: config.server.requestTimeoutSeconds * 1000,
    limits: { ...config.limits, windowMs: config.limits.windowSeconds * 1000 },
    authenticate: (authorization) => authenticate(authentication, authorization),
    readiness: () => readiness(db),
    metrics: async () => {
      await measure(db, metrics);
      return metrics.text();
    },
    onAnswer: (method, status) => metrics.count('bursar_http_requests_total', { method, status: String(status) }),
    readSystems: (hpc) => readSystems(destinations, hpc),
    pauseSystem: (actor, hpc, reason, request) =>
      pauseSystem(destinations, actor, hpc, { at: now(), reason }, reason, request),
    resumeSystem: (actor, hpc, reason, request) => pauseSystem(destinations, actor, hpc, null, reason, request),
    listJobs: (owner, place, query) => listJobs(db, systems, owner, place, query),
    readJob: (owner, place, jobId) => readJob(db, systems, owner, place, jobId),
    findDestination: (actor, place) => findDestination(destinations, actor, place),
    submitJob: (actor, destination, request, body, claim) =>
      submitJob(submission, actor, destination, request, body, claim),
    submitOnce: (request, body, submit) => submitOnce(submission, request, body, submit),
    endJob: (actor, place, jobId) => endJob(endings, actor, place, jobId),
    listQuotas: (userId, place) => listQuotas(db, systems, userId, place, now()),
    readQuota: (userId, place) => readQuota(db, systems, userId, place, now()),
    refuseOthers,
    quote: publicQuote,
    readOnce: (request, read) => readOnce(db, request, now(), read),
    statement: async (userId, place, { from = 0, to = now() + 1 }) =>
      publicStatement(await readStatement(db, systems, userId, place, { from, to }, now())),
    usage: (userId) => readUsage(db, userId),
    ...administrationDesk(db, systems, now),
    proveLedger: () => proveAside({ url: config.database.url, dataFolder }),
    checkAdministrator: (actor, userId) => checkAdministrator(db, actor, userId),
  });

  return {
    app,
    db,
    async stop() {
      await closeServer(app, config.server.drainSeconds * 1000);
      await accountant.stop();
      await janitor.stop();
      await lifecycle.stop();
      await Promise.all(workers.map(({ shell }) => shell?.close()));
      await db.destroy();
      unlock();
    },
  };
}

/** A system that is down keeps nobody from submitting to it: only the books must be there. */
async function readiness(db: Db): Promise<string[]> {
  const books = await db
    .selectFrom('users')
    .select('id')
    .limit(1)
    .execute()
    .catch(() => null);
  return books === null ? ['the database does not answer'] : [];
}

/** Waits for the requests under way, but not for ever: then their connections are cut. */
async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMs);
  await app.close();
  clearTimeout(cut);
}
