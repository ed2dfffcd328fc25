import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { type Books, type Role, staleMs, takeBooks } from './books.ts';
import { hpcSystems } from './config/hpc-systems.ts';
import type { Config } from './config/schema.ts';
import { publicStatement } from './contract/ledger.ts';
import { createSpool } from './files/spool.ts';
import { closeServer } from './http/close-server.ts';
import { buildServer } from './http/server.ts';
import { startAccountant } from './lifecycle/accountant.ts';
import { sweepSpool } from './lifecycle/recovery.ts';
import { startLifecycle } from './lifecycle/start.ts';
import { keepTenure } from './lifecycle/tenure.ts';
import { families } from './metrics/families.ts';
import { createMetrics } from './metrics/registry.ts';
import { refuseOthers } from './services/administration.ts';
import { administrationDesk } from './services/administration-desk.ts';
import { createAnnouncements } from './services/announcements.ts';
import { authenticate } from './services/authenticate.ts';
import { findDestination } from './services/destination.ts';
import { endJob } from './services/end-job.ts';
import { syncProjects } from './services/enrolment.ts';
import { fileDesk } from './services/file-desk.ts';
import { createLogFeeds } from './services/log-feed.ts';
import { measure } from './services/measure.ts';
import { createOidcVerifier } from './services/oidc.ts';
import { pauseSystem } from './services/pause-system.ts';
import { publicQuote } from './services/quote.ts';
import { listJobs, readJob } from './services/read-jobs.ts';
import { checkAdministrator, listQuotas, readQuota } from './services/read-quotas.ts';
import { readSystems } from './services/read-systems.ts';
import { readStatement } from './services/statement.ts';
import { type SubmissionDeps, submitJob } from './services/submit-job.ts';
import { readTimeline } from './services/timeline.ts';
import { readUsage } from './services/usage.ts';
import { proveAside } from './store/prove-aside.ts';
import type { Db } from './store/tables.ts';
import { makeSystem } from './systems.ts';
import { startTelling } from './telling.ts';

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
export async function startBursar(config: Config, role: Role, log: Logger, version: string): Promise<Bursar> {
  const books = await takeBooks(config, role);
  try {
    return await compose(config, books, role, log, version);
  } catch (error) {
    await books.close();
    throw error;
  }
}

async function compose(config: Config, books: Books, role: Role, log: Logger, version: string): Promise<Bursar> {
  const dataFolder = resolve(config.data);
  const { db, line } = books;
  const now = Date.now;
  const systems = hpcSystems(config);
  const spool = createSpool(join(dataFolder, 'spool'));
  const { maxBodyKb, maxEntries, maxUnpackedKb, maxRatio } = config.submissions;
  const zipLimits = { maxEntries, maxUnpackedBytes: maxUnpackedKb * bytesPerKb, maxRatio };

  await syncProjects(db, config, now());
  await spool.open();
  await sweepSpool(db, spool, books.staleAtStartMs);

  const metrics = createMetrics(families);
  const announcements = createAnnouncements('user', line);
  const announce = announcements.wake;
  const work = createAnnouncements('system', line);
  const common = { db, spool, zipLimits, staleMs, metrics, announce, now, log };
  const workers = Object.entries(config.systems).flatMap(([name, settings]) => {
    const system = systems.get(name);
    if (system === undefined) return [];
    const parts = makeSystem(name, settings, dataFolder, metrics);
    return [{ ...common, ...parts, system, watchMs: settings.watchSeconds * 1000 }];
  });
  const workspacesOf = new Map(workers.map(({ system, workspaces }) => [system.name, workspaces]));
  const holder = `${hostname()}/${process.pid}/${randomUUID()}`;
  const tenures = { db, holder, leaseMs: books.leaseMs, log };
  const lifecycle = role === 'api' ? undefined : await startLifecycle(workers, tenures);
  work.onWake((hpc) => lifecycle?.wake(hpc));
  const calendar = {
    noticeDays: config.ledger.expiryNoticeDays,
    keepEventsDays: config.events.keepDays,
    everyMs: config.ledger.calendarSeconds * 1000,
    db,
    now,
    log,
  };
  const accountant =
    role === 'api'
      ? undefined
      : keepTenure(tenures, 'calendar', async (tenure) => startAccountant({ ...calendar, tenure }));
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
    wake: work.wake,
  };
  const endings = { db, systems, workspacesOf, now, wake: work.wake, patienceMs: cancelPatienceMs };
  const telling = startTelling(config, {
    sendsWebhooks: role !== 'api',
    db,
    announcements,
    leaseOwner: holder,
    userAgent: `Bursar/${version}`,
    metrics,
    now,
    log,
  });
  const authentication = { db, oidc: createOidcVerifier(config.auth.oidc), now };
  const app = await buildServer({
    servesCallers: role !== 'worker',
    log,
    version,
    requestTimeoutMs: config.server.requestTimeoutSeconds * 1000,
    authenticate: (authorization) => authenticate(authentication, authorization),
    readiness: () => readiness(db),
    metrics: async () => {
      await measure(db, metrics);
      return metrics.text();
    },
    onAnswer: (method, status) => metrics.count('bursar_http_requests_total', { method, status: String(status) }),
    readSystems: (hpc) => readSystems(destinations, hpc),
    pauseSystem: (actor, hpc, reason) => pauseSystem(destinations, actor, hpc, { at: now(), reason }, reason),
    resumeSystem: (actor, hpc, reason) => pauseSystem(destinations, actor, hpc, null, reason),
    listJobs: (owner, place) => listJobs(db, systems, owner, place),
    readJob: (owner, place, jobId) => readJob(db, systems, owner, place, jobId),
    readTimeline: (owner, place, jobId) => readTimeline(db, systems, owner, place, jobId),
    findDestination: (actor, place) => findDestination(destinations, actor, place),
    submitJob: async (actor, destination, request, body) => {
      const json = await submitJob(submission, actor, destination, request, body);
      announce(actor.userId);
      return json;
    },
    endJob: async (actor, place, jobId) => {
      const ended = await endJob(endings, actor, place, jobId);
      announce(actor.userId);
      return ended;
    },
    listQuotas: (userId, place) => listQuotas(db, systems, userId, place, now()),
    readQuota: (userId, place) => readQuota(db, systems, userId, place, now()),
    refuseOthers,
    quote: publicQuote,
    statement: async (userId, place, { from = 0, to = now() + 1 }) =>
      publicStatement(await readStatement(db, systems, userId, place, { from, to }, now())),
    usage: (userId) => readUsage(db, userId),
    ...administrationDesk(db, systems, now),
    ...fileDesk({ db, systems, workspacesOf, feeds: createLogFeeds(metrics) }),
    ...telling.services,
    proveLedger: () => proveAside(config.database, dataFolder),
    checkAdministrator: (actor, userId) => checkAdministrator(db, actor, userId),
  });

  return {
    app,
    db,
    async stop() {
      await closeServer(app, config.server.drainSeconds * 1000);
      await telling.stop();
      await accountant?.stop();
      await lifecycle?.stop();
      await Promise.all(workers.map(({ shell }) => shell?.close()));
      await books.close();
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
