import { randomUUID } from 'node:crypto';
import { hostname } from 'node:os';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { hpcSystems } from './config/hpc-systems.ts';
import type { Config } from './config/schema.ts';
import { publicStatement } from './contract/ledger.ts';
import { createSpool } from './files/spool.ts';
import { buildServer } from './http/server.ts';
import { startAccountant } from './lifecycle/accountant.ts';
import { forever } from './lifecycle/loop.ts';
import { sweepSpool } from './lifecycle/recovery.ts';
import { startLifecycle } from './lifecycle/start.ts';
import { families } from './metrics/families.ts';
import { createMetrics } from './metrics/registry.ts';
import { refuseOthers } from './services/administration.ts';
import { administrationDesk } from './services/administration-desk.ts';
import { createAnnouncements } from './services/announcements.ts';
import { authenticate } from './services/authenticate.ts';
import { findDestination } from './services/destination.ts';
import { endJob } from './services/end-job.ts';
import { syncProjects } from './services/enrolment.ts';
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
import { openBooks } from './store/database.ts';
import { lockDatabase, lockDataFolder } from './store/instance-lock.ts';
import { endAllLeases } from './store/leases.ts';
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
export async function startBursar(config: Config, log: Logger, version: string): Promise<Bursar> {
  const books = await takeBooks(config, log);
  try {
    return await compose(config, books, log, version);
  } catch (error) {
    await books.close();
    throw error;
  }
}

interface Books {
  db: Db;
  close(): Promise<void>;
}

/** The books, and the right to serve from them, which one server has at a time. */
async function takeBooks(config: Config, log: Logger): Promise<Books> {
  const dataFolder = resolve(config.data);
  const unlockFolder = lockDataFolder(dataFolder);
  const db = await openBooks(config.database, dataFolder);
  try {
    const unlockDatabase = await lockDatabase(db, () => {
      log.fatal({}, 'another Bursar serves from this database now; stopping');
      process.kill(process.pid, 'SIGTERM');
    });
    return {
      db,
      close: async () => {
        await unlockDatabase();
        await db.destroy();
        unlockFolder();
      },
    };
  } catch (error) {
    await db.destroy();
    throw error;
  }
}

async function compose(config: Config, books: Books, log: Logger, version: string): Promise<Bursar> {
  const dataFolder = resolve(config.data);
  const { db } = books;
  const now = Date.now;
  const systems = hpcSystems(config);
  const spool = createSpool(join(dataFolder, 'spool'));
  const { maxBodyKb, maxEntries, maxUnpackedKb, maxRatio } = config.submissions;
  const zipLimits = { maxEntries, maxUnpackedBytes: maxUnpackedKb * bytesPerKb, maxRatio };

  await syncProjects(db, config, now());
  await spool.open();
  await sweepSpool(db, spool, 0);

  const metrics = createMetrics(families);
  const announcements = createAnnouncements();
  const announce = announcements.wake;
  const common = { db, spool, zipLimits, metrics, announce, now, log };
  const workers = Object.entries(config.systems).flatMap(([name, settings]) => {
    const system = systems.get(name);
    if (system === undefined) return [];
    const parts = makeSystem(name, settings, dataFolder, metrics);
    return [{ ...common, ...parts, system, watchMs: settings.watchSeconds * 1000 }];
  });
  const workspacesOf = new Map(workers.map(({ system, workspaces }) => [system.name, workspaces]));
  // The books are ours alone: nobody else holds what an earlier life held.
  await endAllLeases(db);
  const holder = `${hostname()}/${process.pid}/${randomUUID()}`;
  const lifecycle = await startLifecycle(workers, { db, holder, leaseMs: forever, log });

  const accountant = startAccountant({
    db,
    noticeDays: config.ledger.expiryNoticeDays,
    keepEventsDays: config.events.keepDays,
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
  const telling = startTelling(config, {
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
      await accountant.stop();
      await lifecycle.stop();
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

/** Waits for the requests under way, but not for ever: then their connections are cut. */
async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMs);
  await app.close();
  clearTimeout(cut);
}
