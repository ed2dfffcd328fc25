import { randomUUID } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import { publicStatement } from '../contract/ledger.ts';
import { closeServer } from '../http/server/close-server.ts';
import { buildServer, type ServerDeps } from '../http/server/server.ts';
import type { Metrics } from '../metrics/registry.ts';
import { requireAdmin } from '../services/accounting/admin-actions.ts';
import { adminService } from '../services/accounting/admin-service.ts';
import { publicQuote } from '../services/accounting/quote.ts';
import { listQuotas, readQuota, requireAdminAndUser } from '../services/accounting/read-quotas.ts';
import { readStatement } from '../services/accounting/statement.ts';
import { readUsage } from '../services/accounting/usage.ts';
import { createEventFeed } from '../services/events/event-feed.ts';
import { createTopic } from '../services/events/publish.ts';
import { followEvents, pollEvents, startingPoint } from '../services/events/read-events.ts';
import { webhookService } from '../services/events/webhooks.ts';
import { readOnce } from '../services/idempotency.ts';
import { authenticate } from '../services/identity/authenticate.ts';
import { createOidcVerifier } from '../services/identity/oidc.ts';
import { type FindToken, rememberTokens } from '../services/identity/token-cache.ts';
import { findDestination } from '../services/jobs/destination.ts';
import { endJob } from '../services/jobs/end-job.ts';
import { fileService } from '../services/jobs/file-service.ts';
import { createJobListCache } from '../services/jobs/job-list-cache.ts';
import { createLogFeeds } from '../services/jobs/log-feed.ts';
import { listJobs, readJob } from '../services/jobs/read-jobs.ts';
import { submitJob } from '../services/jobs/submit-job.ts';
import { submitOnce } from '../services/jobs/submit-once.ts';
import { readTimeline } from '../services/jobs/timeline.ts';
import { updateGauges } from '../services/systems/measure.ts';
import { pauseSystem } from '../services/systems/pause-system.ts';
import { readSystems } from '../services/systems/read-systems.ts';
import type { Db } from '../store/database/handle.ts';
import { findTokenByHash } from '../store/identity/tokens.ts';
import { verifyLedgerInThread } from '../store/ledger/verify-in-thread.ts';
import type { Dependencies } from './dependencies.ts';

const cancelPatienceMs = 10_000;
const keptListsBytes = 16_000_000;

/** What answers callers; one that does not serve them only answers whether it is alive and how it does. */
export async function startApi(
  parts: Dependencies,
  servesCallers: boolean,
): Promise<{ app: FastifyInstance; stop(): Promise<void> }> {
  const { config, db, announcements, metrics, now, log, version } = parts;
  const { events, limits, server } = config;
  const feed = createEventFeed({
    db,
    announcements,
    checkMs: events.checkSeconds * 1000,
    listenersPerUser: events.listenersPerUser,
    log,
  });
  const authentication = { db, findToken: tokensOf(parts), oidc: createOidcVerifier(config.auth.oidc), now };
  const app = await buildServer({
    servesCallers,
    log,
    version,
    requestTimeoutMs: server.requestTimeoutSeconds * 1000,
    limits: { ...limits, windowMs: limits.windowSeconds * 1000 },
    authenticate: (authorization) => authenticate(authentication, authorization),
    readiness: () => readiness(db),
    metrics: async () => {
      await updateGauges(db, metrics);
      return metrics.toPrometheusText();
    },
    onAnswer: answerCounter(metrics),
    booksVersion: db.backend.commitVersion,
    heartbeatMs: events.heartbeatSeconds * 1000,
    startingPoint: startingPoint.bind(null, { db, feed }),
    followEvents: followEvents.bind(null, { db, feed }),
    pollEvents: pollEvents.bind(null, { db, feed }),
    ...jobDesk(parts),
    ...accountDesk(parts),
    ...systemDesk(parts),
    ...adminService(db, parts.systems, now),
    ...fileService({ ...parts, feeds: createLogFeeds(metrics) }),
    ...webhookService({
      db,
      rules: config.webhooks,
      resolve: parts.resolveEndpoint,
      mostPerUser: config.webhooks.perUser,
      now,
      announce: announcements.publish,
    }),
  });
  return {
    app,
    async stop() {
      await closeServer(app, server.drainSeconds * 1000);
      await feed.stop();
    },
  };
}

function answerCounter(metrics: Metrics): (method: string, status: number) => void {
  const counters = new Map<string, Map<number, () => void>>();
  return (method, status) => {
    const ofMethod = counters.get(method) ?? new Map<number, () => void>();
    counters.set(method, ofMethod);
    const count =
      ofMethod.get(status) ?? metrics.createCounter('bursar_http_requests_total', { method, status: String(status) });
    ofMethod.set(status, count);
    count();
  };
}

/** How tokens are found: on books that others share too, with a short memory. */
function tokensOf({ db, books, now }: Dependencies): FindToken {
  const find: FindToken = (hash) => findTokenByHash(db, hash);
  if (books.pgNotify === undefined) return find;
  const tokens = rememberTokens(find, now);
  createTopic('token', books.pgNotify).subscribe((id) => tokens.forget(Number(id)));
  return tokens.find;
}

/** A part of what the routes need. */
type Services<Name extends keyof ServerDeps> = Pick<ServerDeps, Name>;

function jobDesk(
  parts: Dependencies,
): Services<
  'listJobs' | 'readJob' | 'readTimeline' | 'findDestination' | 'submitJob' | 'submitOnce' | 'endJob' | 'readOnce'
> {
  const { db, systems, announcements, work, now } = parts;
  const lists = { db, systems, keptLists: createJobListCache(keptListsBytes) };
  const submission = { ...parts, newUuid: randomUUID, wake: work.publish };
  const endings = { ...parts, wake: work.publish, patienceMs: cancelPatienceMs };
  return {
    listJobs: (owner, place, query, known) => listJobs(lists, owner, place, query, known),
    readJob: (owner, place, jobId) => readJob(db, systems, owner, place, jobId),
    readTimeline: (owner, place, jobId) => readTimeline(db, systems, owner, place, jobId),
    findDestination: (actor, place) => findDestination(destinationsOf(parts), actor, place),
    submitJob: async (actor, destination, request, body, claim) => {
      const json = await submitJob(submission, actor, destination, request, body, claim);
      announcements.publish(actor.userId);
      return json;
    },
    submitOnce: (request, body, submit) => submitOnce(submission, request, body, submit),
    endJob: async (actor, place, jobId) => {
      const ended = await endJob(endings, actor, place, jobId);
      announcements.publish(actor.userId);
      return ended;
    },
    readOnce: (request, read) => readOnce(db, request, now(), read),
  };
}

function accountDesk({
  config,
  db,
  systems,
  dataFolder,
  now,
}: Dependencies): Services<
  'listQuotas' | 'readQuota' | 'requireAdmin' | 'quote' | 'statement' | 'usage' | 'verifyLedger' | 'requireAdminAndUser'
> {
  return {
    listQuotas: (userId, place, known) => listQuotas(db, systems, userId, place, now(), known),
    readQuota: (userId, place, known) => readQuota(db, systems, userId, place, now(), known),
    requireAdmin: requireAdmin,
    quote: publicQuote,
    statement: async (userId, place, { from = 0, to = now() + 1 }) =>
      publicStatement(await readStatement(db, systems, userId, place, { from, to }, now())),
    usage: (userId) => readUsage(db, userId),
    verifyLedger: () => verifyLedgerInThread(config.database, dataFolder),
    requireAdminAndUser: (actor, userId) => requireAdminAndUser(db, actor, userId),
  };
}

function systemDesk(parts: Dependencies): Services<'readSystems' | 'pauseSystem' | 'resumeSystem'> {
  const destinations = destinationsOf(parts);
  const { now } = parts;
  return {
    readSystems: (hpc) => readSystems(destinations, hpc),
    pauseSystem: (actor, hpc, reason, request) =>
      pauseSystem(destinations, actor, hpc, { at: now(), reason }, reason, request),
    resumeSystem: (actor, hpc, reason, request) => pauseSystem(destinations, actor, hpc, null, reason, request),
  };
}

const destinationsOf = ({ config, db, systems, now }: Dependencies) => ({
  db,
  systems,
  defaultProject: (hpc: string) => config.systems[hpc]?.projects[0]?.name ?? '',
  now,
});

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
