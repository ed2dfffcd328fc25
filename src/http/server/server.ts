import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  LogController,
} from 'fastify';
import { BursarError, type FieldError } from '../../domain/errors.ts';
import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AdminService } from '../../services/accounting/admin-service.ts';
import type { EventService } from '../../services/events/event-service.ts';
import type { WebhookService } from '../../services/events/webhooks.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import type { SystemService } from '../../services/systems/system-service.ts';
import type { ExampleSystem } from '../openapi/complete-document.ts';
import { registerOpenApi } from '../openapi/register.ts';
import { type Authenticate, requireToken } from '../request/authentication.ts';
import { drainBody } from '../request/drain-body.ts';
import { missingKey } from '../request/idempotency-key.ts';
import { toProblem } from '../response/problem.ts';
import { sendJson } from '../response/send.ts';
import { accountingRoutes } from '../routes/accounting.ts';
import { administrationRoutes } from '../routes/administration.ts';
import { eventRoutes } from '../routes/events.ts';
import { fileRoutes } from '../routes/files.ts';
import { jobRoutes } from '../routes/jobs.ts';
import { logRoutes } from '../routes/logs.ts';
import { probeRoutes } from '../routes/probes.ts';
import { quotaRoutes } from '../routes/quotas.ts';
import { pauseRoutes, systemRoutes } from '../routes/systems.ts';
import { adminWebhookRoutes, webhookRoutes } from '../routes/webhooks.ts';
import { type AccessLogEntry, createAccessLog } from './access-log.ts';
import { prepareToClose } from './close-server.ts';
import { createConnectionErrorHandler } from './connection-errors.ts';
import { lazyValidators } from './lazy-validators.ts';
import { checkQueryParameters } from './query-parameters.ts';
import { createRateLimits, type RateLimitSettings, type RateLimits } from './rate-limits.ts';
import { createResponseCache } from './response-cache.ts';

export interface Services {
  access: AccessService;
  jobs: JobService;
  files: FileService;
  accounting: AccountingService;
  admin: AdminService;
  systems: SystemService;
  events: EventService;
  webhooks: WebhookService;
}

export interface ServerDeps {
  /** False for a server that has only probes and metrics. */
  servesCallers: boolean;
  log: FastifyBaseLogger;
  version: string;
  /** For the OpenAPI document. */
  systems: readonly ExampleSystem[];
  requestTimeoutMs: number;
  /** Between two heartbeats of an event stream. */
  heartbeatMs: number;
  limits: RateLimitSettings;
  /** Changes with every commit to the database. Undefined if the database cannot tell. */
  commitVersion: (() => unknown) | undefined;
  services: Services;
  authenticate: Authenticate;
  /** Metrics in the text format of Prometheus. */
  metrics(): Promise<string>;
  /** Called for every response. */
  onResponse(method: string, status: number): void;
  /** Reasons why requests cannot be served. */
  findProblems(): Promise<string[]>;
  /** Problems that need an operator, although requests can be served. */
  findWarnings(): Promise<string[]>;
}

/**
 * The time limit for reading the rest of a rejected request. Less than the request timeout, which closes the connection without a
 * response.
 */
const maxDrainMs = 30_000;

/** Creates the HTTP server. Each route validates a request, calls one service and sends the result. */
export async function createServer(deps: ServerDeps): Promise<FastifyInstance> {
  const connections = createConnectionErrorHandler(deps.log);
  const limits = createRateLimits(deps.limits, () => performance.now());
  const logAccess = createAccessLog(deps.log);
  const onResponse = (entry: AccessLogEntry) => {
    deps.onResponse(entry.method, entry.status);
    logAccess(entry);
  };
  const cache = createResponseCache({
    commitVersion: deps.commitVersion,
    limits,
    now: Date.now,
    requestId: ({ headers }) => toRequestId(headers['x-request-id']),
    onResponse,
  });
  const app = fastify({
    loggerInstance: deps.log,
    // The hook below rejects a request without Host, with a problem document. A request without a body needs no stream.
    http: { requireHostHeader: false, optimizeEmptyRequests: true },
    logController: new LogController({ disableRequestLogging: true }),
    // Creating a child logger for each request costs time, and nothing uses it.
    childLoggerFactory: (logger) => logger,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // Unknown fields are errors, and all errors are reported at once. The schemas are our own: tests check them.
    ajv: { customOptions: { removeAdditional: false, allErrors: true, coerceTypes: true, validateSchema: false } },
    schemaController: { compilersFactory: { buildValidator: lazyValidators, buildSerializer } },
    requestTimeout: deps.requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => toRequestId(headers['x-request-id']),
    clientErrorHandler: connections.rejectRequest,
    frameworkErrors: (error, request, reply) => {
      // A path that cannot be percent-decoded matches no route.
      const message = 'The path is not well-formed. Send it percent-encoded.';
      deps.log.info({ reqId: request.id, method: request.method, status: 404, reason: error.code }, 'path rejected');
      sendProblem(new BursarError('not_found', message, { cause: error }), request.id, reply as FastifyReply);
    },
  });
  app.decorateRequest('caller', null);
  app.decorateRequest('commitVersion', undefined);
  app.decorateReply('cacheUntil', 0);

  const notFound = (request: FastifyRequest, reply: FastifyReply) => {
    limits.anonymous(request, reply);
    return new BursarError('not_found', 'There is nothing at this path. See /docs/.');
  };
  // These hooks use callbacks: an async hook costs every request another turn of the event loop.
  app.addHook('onRequest', (request, reply, done) => {
    cache.onRequest(request);
    connections.track(reply.raw);
    reply.header('x-request-id', request.id);
    if (request.is404) return done(notFound(request, reply) as Error);
    if (request.headers.host !== undefined || request.raw.httpVersion !== '1.1') return done();
    reply.header('connection', 'close');
    done(new BursarError('bad_request', 'The header Host is missing. Send it: HTTP/1.1 requires it.') as Error);
  });
  // Node makes no stream for a request without a body. Fastify would wait for its end if the request has a content type.
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const isEmpty = request.raw.destroyed && request.headers['content-type'] !== undefined;
    done(null, isEmpty ? Readable.from([]) : payload);
  });
  app.addHook('onResponse', (request, reply, done) => {
    const { id: requestId, method, url } = request;
    onResponse({ requestId, method, url, status: reply.statusCode, ms: reply.elapsedTime });
    done();
  });
  app.addHook('onSend', (request, reply, payload, done) => {
    // Fastify adds a charset, which application/json does not have.
    const type = reply.getHeader('content-type');
    if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
    cache.onSend(request, reply, payload);
    done(null, payload);
  });
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drainBody(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    const problem = sendProblem(toRequestError(error), request.id, reply);
    if (problem.status >= 500 && !isRefusal(error)) deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
  // For a file that a page of Swagger UI does not have. Every other unknown path is rejected before its body is read.
  app.setNotFoundHandler(async (request, reply) => {
    throw notFound(request, reply);
  });

  cache.install(app.server);
  prepareToClose(app);
  app.server.on('checkExpectation', connections.rejectExpectation);

  checkQueryParameters(app);
  await registerOpenApi(app, deps.version, deps.systems, limits);
  await app.register(async (instance) =>
    probeRoutes(instance, deps.findProblems, deps.findWarnings, deps.metrics, limits),
  );
  if (deps.servesCallers) await registerRoutes(app, deps, limits);
  return app;
}

/** By default Fastify compiles a serializer for every schema, which slows down the start and takes memory. */
const buildSerializer = () => () => JSON.stringify;

/** Three contexts: routes that read raw bodies, administrators' routes, and routes with JSON bodies. */
async function registerRoutes(app: FastifyInstance, deps: ServerDeps, limits: RateLimits): Promise<void> {
  const { authenticate, heartbeatMs } = deps;
  const { access, jobs, files, accounting, admin, systems, events, webhooks } = deps.services;
  await app.register(async (instance) => {
    requireToken(instance, authenticate, limits);
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (_request, _payload, done) => done(null));
    jobRoutes(instance, jobs, access, limits);
    quotaRoutes(instance, accounting, access);
    accountingRoutes(instance, accounting, access);
    systemRoutes(instance, systems);
    fileRoutes(instance, files, access);
    logRoutes(instance, files, access, authenticate);
    eventRoutes(instance, events, access, { heartbeatMs, authenticate });
  });
  await app.register(async (instance) => {
    requireToken(instance, authenticate, limits);
    administrationRoutes(instance, admin, access);
    pauseRoutes(instance, systems);
    adminWebhookRoutes(instance, webhooks, access);
  });
  await app.register(async (instance) => {
    requireToken(instance, authenticate, limits);
    webhookRoutes(instance, webhooks);
  });
}

/** A random prefix for this process and a counter: unique among all instances. */
const requestIdPrefix = `${randomUUID().slice(0, 13)}-`;
let requestCount = 0;

/** Takes the caller's X-Request-Id if it is harmless in a log. */
function toRequestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^[\w.-]{1,64}$/.test(header) ? header : requestIdPrefix + ++requestCount;
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

/** A job for a paused system is refused on purpose: an operator need not look. */
const isRefusal = (error: unknown) => error instanceof BursarError && error.code === 'system_paused';

/** Errors of Fastify below 500 are the caller's. Everything else is unexpected. */
function toRequestError(error: FastifyError): unknown {
  if (error instanceof BursarError) return error;
  if (error.validation?.some(isMissingKey)) return missingKey();
  if (error.validation) {
    const fields = error.validation.map(toFieldError);
    const list = fields.map(({ field, message }) => `${field} ${message}`).join('; ');
    return error.validationContext === 'querystring'
      ? new BursarError('bad_request', `The query is not valid: ${list}.`, { cause: error, fields })
      : new BursarError('invalid_body', `The request is not valid: ${list}.`, { cause: error, fields });
  }
  const status = error.statusCode ?? 500;
  if (status === 413) return new BursarError('too_large', 'The request body is too large.', { cause: error });
  if (status < 500) return new BursarError('bad_request', error.message, { cause: error });
  return error;
}

type ValidationError = NonNullable<FastifyError['validation']>[number];

const isMissingKey = ({ params }: ValidationError) => params.missingProperty === 'idempotency-key';

function toFieldError(problem: ValidationError): FieldError {
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
