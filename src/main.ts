import { randomUUID } from 'node:crypto';
import { availableParallelism } from 'node:os';
import { join, resolve } from 'node:path';
import type { FastifyInstance } from 'fastify';
import type { Logger } from 'pino';
import { hpcSystems } from './config/hpc-systems.ts';
import type { Config, SystemConfig } from './config/schema.ts';
import { publicStatement } from './contract/ledger.ts';
import type { Engine } from './engines/engine.ts';
import { createLocalEngine } from './engines/local/engine.ts';
import { createSpool } from './files/spool.ts';
import { createWorkspaces } from './files/workspaces.ts';
import { buildServer } from './http/server.ts';
import { startAccountant } from './lifecycle/accountant.ts';
import { recover } from './lifecycle/recovery.ts';
import { type Lifecycle, startLifecycle } from './lifecycle/start.ts';
import { refuseOthers } from './services/administration.ts';
import { administrationDesk } from './services/administration-desk.ts';
import { authenticate } from './services/authenticate.ts';
import { findDestination } from './services/destination.ts';
import { endJob } from './services/end-job.ts';
import { syncProjects } from './services/enrolment.ts';
import { createOidcVerifier } from './services/oidc.ts';
import { publicQuote } from './services/quote.ts';
import { listJobs, readJob } from './services/read-jobs.ts';
import { checkAdministrator, listQuotas, readQuota } from './services/read-quotas.ts';
import { readStatement } from './services/statement.ts';
import { type SubmissionDeps, submitJob } from './services/submit-job.ts';
import { readUsage } from './services/usage.ts';
import { migrate, openDatabase } from './store/database.ts';
import { lockDataFolder } from './store/instance-lock.ts';
import { proveAside } from './store/prove-aside.ts';
import type { Db } from './store/tables.ts';

/** A Bursar that is ready to listen. */
export interface Bursar {
  app: FastifyInstance;
  db: Db;
  /** Answers what is under way, lets the lifecycle finish its rounds, closes the books. Running jobs go on. */
  stop(): Promise<void>;
}

const bytesPerKb = 1000;
const silenceMs = 60_000;
const cancelPatienceMs = 10_000;

/** The composition root: everything is made here, once, and handed to whoever needs it. */
export async function startBursar(config: Config, log: Logger, version: string): Promise<Bursar> {
  const dataFolder = resolve(config.data);
  const unlock = lockDataFolder(dataFolder);
  const now = Date.now;
  const systems = hpcSystems(config);
  const spool = createSpool(join(dataFolder, 'spool'));
  const workspaces = createWorkspaces(join(dataFolder, 'workspaces'));
  const db = openDatabase(config.database.url, dataFolder);
  const { maxBodyKb, maxEntries, maxUnpackedKb, maxRatio } = config.submissions;
  const zipLimits = { maxEntries, maxUnpackedBytes: maxUnpackedKb * bytesPerKb, maxRatio };

  await migrate(db);
  await syncProjects(db, config, now());
  await recover(db, spool, workspaces);

  const leaseOwner = randomUUID();
  const lifecycle = await startLifecycle(
    Object.entries(config.systems).flatMap(([name, settings]) => {
      const system = systems.get(name);
      if (system === undefined) return [];
      const engine = makeEngine(settings, join(dataFolder, 'engines', name));
      const watchMs = settings.watchSeconds * 1000;
      const siteOptions = () => ({});
      return [{ db, system, engine, workspaces, spool, zipLimits, watchMs, siteOptions, leaseOwner, now, log }];
    }),
  );

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
  const endings = { db, systems, workspaces, now, wake: lifecycle.wake, patienceMs: cancelPatienceMs };
  const authentication = { db, oidc: createOidcVerifier(config.auth.oidc), now };
  const app = await buildServer({
    log,
    version,
    requestTimeoutMs: config.server.requestTimeoutSeconds * 1000,
    authenticate: (authorization) => authenticate(authentication, authorization),
    readiness: () => readiness(db, lifecycle),
    listJobs: (owner, place) => listJobs(db, systems, owner, place),
    readJob: (owner, place, jobId) => readJob(db, systems, owner, place, jobId),
    findDestination: (actor, place) => findDestination(destinations, actor, place),
    submitJob: (actor, destination, request, body) => submitJob(submission, actor, destination, request, body),
    endJob: (actor, place, jobId) => endJob(endings, actor, place, jobId),
    listQuotas: (userId, place) => listQuotas(db, systems, userId, place, now()),
    readQuota: (userId, place) => readQuota(db, systems, userId, place, now()),
    refuseOthers,
    quote: publicQuote,
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
      await lifecycle.stop();
      await db.destroy();
      unlock();
    },
  };
}

function makeEngine({ engine }: SystemConfig, directory: string): Engine {
  const { memoryMb, outputKb, killGraceSeconds, cores = availableParallelism() } = engine;
  return createLocalEngine({ directory, cores, memoryMb, outputKb, killGraceSeconds });
}

async function readiness(db: Db, lifecycle: Lifecycle): Promise<string[]> {
  const troubles = lifecycle.silentSystems(silenceMs, Date.now()).map((name) => `${name} does not answer`);
  const books = await db
    .selectFrom('users')
    .select('id')
    .limit(1)
    .execute()
    .catch(() => null);
  return books === null ? [...troubles, 'the database does not answer'] : troubles;
}

/** Waits for the requests under way, but not for ever: then their connections are cut. */
async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const cut = setTimeout(() => app.server.closeAllConnections(), drainMs);
  await app.close();
  clearTimeout(cut);
}
