import { randomUUID } from 'node:crypto';
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  LogController,
} from 'fastify';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
import { requireActor } from '../request/authentication.ts';
import { drain } from '../request/drain-body.ts';
import { toProblem } from '../response/problem.ts';
import { createResponseCache } from '../response/response-cache.ts';
import { type AccountingServices, accountingRoutes } from '../routes/accounting.ts';
import { type AdministrationServices, administrationRoutes } from '../routes/administration.ts';
import { type EventServices, eventRoutes } from '../routes/events.ts';
import { type FileServices, fileRoutes } from '../routes/files.ts';
import { type JobServices, jobRoutes } from '../routes/jobs.ts';
import { type LogServices, logRoutes } from '../routes/logs.ts';
import { probeRoutes } from '../routes/probes.ts';
import { type QuotaServices, quotaRoutes } from '../routes/quotas.ts';
import { pauseRoutes, type SystemServices, systemRoutes } from '../routes/systems.ts';
import { type TimelineServices, timelineRoutes } from '../routes/timeline.ts';
import { type WebhookServices, webhookOversightRoutes, webhookRoutes } from '../routes/webhooks.ts';
import { type AccessLogEntry, accessLog } from './access-log.ts';
import { prepareToClose } from './close-server.ts';
import { connectionErrors } from './connection-errors.ts';
import { lazyValidators } from './lazy-validators.ts';
import { registerOpenApi, sendJson } from './openapi.ts';
import { createRateLimits, type RateLimitSettings } from './rate-limits.ts';
import { createRepeatedReads } from './repeated-reads.ts';

export interface ServerDeps
  extends JobServices,
    QuotaServices,
    AccountingServices,
    AdministrationServices,
    SystemServices,
    FileServices,
    LogServices,
    EventServices,
    TimelineServices,
    WebhookServices {
  /** False for one that only answers whether it is alive and how it does. */
  servesCallers: boolean;
  log: FastifyBaseLogger;
  version: string;
  requestTimeoutMs: number;
  limits: RateLimitSettings;
  authenticate(authorization: string | undefined): Promise<Caller>;
  /** Another value after every commit to the books; undefined where nobody can tell. */
  booksVersion: (() => unknown) | undefined;
  /** The text for whoever collects metrics. */
  metrics(): Promise<string>;
  /** Told of every answer. */
  onAnswer(method: string, status: number): void;
  /** What keeps the service from serving; empty when nothing does. */
  readiness(): Promise<string[]>;
}

const answerCacheBytes = 16_000_000;

/** How long the rest of a rejected request is read. Less than the request timeout, which closes the connection without a response. */
const maxDrainMs = 30_000;

/** The HTTP face of Bursar: routes that each check a request, call one service and send its answer. */
export async function buildServer(deps: ServerDeps): Promise<FastifyInstance> {
  const connections = connectionErrors(deps.log);
  const answers = createResponseCache(answerCacheBytes);
  const limits = createRateLimits(deps.limits, () => performance.now());
  const logAnswer = accessLog(deps.log);
  const onAnswered = (answered: AccessLogEntry) => {
    deps.onAnswer(answered.method, answered.status);
    logAnswer(answered);
  };
  const repeated = createRepeatedReads({
    booksVersion: deps.booksVersion,
    limits,
    now: Date.now,
    newRequestId: () => requestIdOf(undefined),
    onAnswered,
  });
  const app = fastify({
    loggerInstance: deps.log,
    // A request without Host is refused below, in the same form as every other.
    http: { requireHostHeader: false },
    logController: new LogController({ disableRequestLogging: true }),
    // One that adds the identifier of the request by itself would have to be made for each request.
    childLoggerFactory: (logger) => logger,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // Whoever writes a field that nobody knows is told so, and told of all faults at once. The schemas themselves are ours,
    // and checked by the tests: to do that here would be a tenth of the start.
    ajv: { customOptions: { removeAdditional: false, allErrors: true, coerceTypes: true, validateSchema: false } },
    schemaController: { compilersFactory: { buildValidator: lazyValidators } },
    requestTimeout: deps.requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => requestIdOf(headers['x-request-id']),
    clientErrorHandler: connections.answer,
    frameworkErrors: (error, request, reply) => {
      // What cannot be decoded names nothing that is here.
      const cause = new BursarError('not_found', 'The path is not well-formed. Send it percent-encoded.', {
        cause: error,
      });
      deps.log.info({ reqId: request.id, method: request.method, status: 404, reason: error.code }, 'path refused');
      sendProblem(cause, request.id, reply as FastifyReply);
    },
  });

  // Hooks that wait for nothing call back: an async one costs every request a turn more.
  app.decorateReply('goodUntil', 0);
  app.addHook('onRequest', (request, reply, done) => {
    repeated.begin(request);
    connections.track(reply.raw);
    reply.header('x-request-id', request.id);
    if (request.headers.host !== undefined || request.raw.httpVersion !== '1.1') return done();
    reply.header('connection', 'close');
    done(new BursarError('bad_request', 'The header Host is missing. Send it, as HTTP/1.1 asks.') as Error);
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { id: requestId, method, url } = request;
    onAnswered({ requestId, method, url, status: reply.statusCode, ms: reply.elapsedTime });
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // JSON has no charset, and the interface shows none; the framework would add one.
    const type = reply.getHeader('content-type');
    if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
    repeated.keep(request, reply, payload);
    done(null, payload);
  });
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drain(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    const problem = sendProblem(asBursarError(error), request.id, reply);
    if (problem.status >= 500) deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
  app.setNotFoundHandler(async (request, reply) => {
    limits.anonymous(request, reply);
    sendProblem(new BursarError('not_found', 'There is nothing at this path. See /docs/.'), request.id, reply);
    return reply;
  });

  // What is sent is text already. Making serialisers of all the schemas would take a good part of the start.
  app.setSerializerCompiler(() => JSON.stringify);
  repeated.overtake(app.server);
  prepareToClose(app);
  app.server.on('checkExpectation', connections.refuseExpectation);

  await registerOpenApi(app, deps.version, limits);
  await app.register(async (scope) => probeRoutes(scope, deps.readiness, deps.metrics, limits));
  if (!deps.servesCallers) return app;
  await app.register(async (scope) => {
    scope.addHook('onRequest', requireActor(deps.authenticate, limits, repeated.introduce));
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
    jobRoutes(scope, deps, answers, limits);
    timelineRoutes(scope, deps);
    quotaRoutes(scope, deps, answers);
    accountingRoutes(scope, deps);
    systemRoutes(scope, deps);
    fileRoutes(scope, deps);
    logRoutes(scope, deps);
    eventRoutes(scope, deps);
  });
  await app.register(async (scope) => {
    scope.addHook('onRequest', requireActor(deps.authenticate, limits, repeated.introduce));
    administrationRoutes(scope, deps);
    pauseRoutes(scope, deps);
    webhookOversightRoutes(scope, deps);
  });
  await app.register(async (scope) => {
    scope.addHook('onRequest', requireActor(deps.authenticate, limits, repeated.introduce));
    webhookRoutes(scope, deps);
  });
  return app;
}

/** Of this process, and counted: no two requests anywhere have the same. */
const requestIds = `${randomUUID().slice(0, 13)}-`;
let requests = 0;

function requestIdOf(given: string | string[] | undefined): string {
  return typeof given === 'string' && /^[\w.-]{1,64}$/.test(given) ? given : requestIds + ++requests;
}

function sendProblem(error: unknown, requestId: string, reply: FastifyReply) {
  const problem = toProblem(error, requestId);
  if (problem.status === 401) reply.header('www-authenticate', 'Bearer realm="bursar"');
  const retryAfter = error instanceof BursarError ? error.retryAfterSeconds : undefined;
  if (problem.status === 503 || retryAfter !== undefined) reply.header('retry-after', String(retryAfter ?? 5));
  reply.header('x-request-id', requestId);
  sendJson(reply, problem.status, problem.body, 'application/problem+json');
  return problem;
}

/** What the framework itself refuses is the caller's mistake; only what nobody foresaw is ours. */
function asBursarError(error: FastifyError): unknown {
  if (error instanceof BursarError) return error;
  if (error.validation) {
    const fields = error.validation.map(fieldError);
    const list = fields.map(({ field, message }) => `${field} ${message}`).join('; ');
    return new BursarError('invalid_body', `The request is not acceptable: ${list}.`, { cause: error, fields });
  }
  const status = error.statusCode ?? 500;
  if (status === 413) return new BursarError('too_large', 'The request body is too large.', { cause: error });
  if (status < 500) return new BursarError('bad_request', error.message, { cause: error });
  return error;
}

function fieldError(problem: NonNullable<FastifyError['validation']>[number]): FieldError {
  const { missingProperty, additionalProperty, allowedValues } = problem.params as {
    missingProperty?: string;
    additionalProperty?: string;
    allowedValues?: string[];
  };
  const path = problem.instancePath.slice(1).replaceAll('/', '.');
  const field = [path, missingProperty ?? additionalProperty].filter(Boolean).join('.') || 'body';
  if (missingProperty !== undefined) return { field, message: 'is required' };
  if (additionalProperty !== undefined) return { field, message: 'is not a known field' };
  if (allowedValues !== undefined) return { field, message: `must be one of ${allowedValues.join(', ')}` };
  return { field, message: problem.message ?? 'is not valid' };
}
