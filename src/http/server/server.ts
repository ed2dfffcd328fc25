import { randomUUID } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import proxyAddr from '@fastify/proxy-addr';
import fastify, {
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  type HTTPMethods,
  LogController,
} from 'fastify';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { RefusedRequest } from '../../services/identity/refusal-recorder.ts';
import { isRefusedAccess } from '../../services/identity/refused-access.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import { type ConnectionLimits, limitConnections } from '../limits/connections.ts';
import { createRateLimits, type RateLimitSettings } from '../limits/rate-limits.ts';
import { type SlowReaderLimits, watchSlowReaders } from '../limits/slow-readers.ts';
import type { ExampleSystem } from '../openapi/complete-document.ts';
import { registerOpenApi } from '../openapi/register.ts';
import { drainBody } from '../request/drain-body.ts';
import { maxJsonBytes, toRequestError } from '../request/request-errors.ts';
import { sendErrorPage, sendProblem } from '../response/send-error.ts';
import { type MetricsOptions, probeRoutes } from '../routes/probes.ts';
import { type AccessLogSettings, createAccessLog, loggablePath } from './access-log.ts';
import type { Certificate } from './certificate.ts';
import { createConnectionErrorHandler, endWithProblem } from './connection-errors.ts';
import { lazyValidators } from './lazy-validators.ts';
import { checkQueryParameters } from './query-parameters.ts';
import { type RouteDeps, registerRoutes } from './register-routes.ts';
import { toRequestId } from './request-id.ts';
import { createRequestSpans } from './request-spans.ts';
import { createResponseCache } from './response-cache.ts';
import { reportServed, type ServedRequest } from './served-request.ts';

export interface ServerDeps extends Omit<RouteDeps, 'hasTls'> {
  /** False for a server that has only probes and metrics. */
  servesCallers: boolean;
  log: FastifyBaseLogger;
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  accessLog: AccessLogSettings;
  version: string;
  /** For the OpenAPI document. */
  systems: readonly ExampleSystem[];
  /** Undefined for a server without TLS. */
  certificate: Certificate | undefined;
  requestTimeoutMs: number;
  /** Addresses and networks of the proxies whose X-Forwarded-For counts. */
  trustProxy: readonly string[];
  rateLimits: RateLimitSettings;
  connectionLimits: ConnectionLimits;
  slowReaderLimits: SlowReaderLimits;
  registry: Pick<Metrics, 'gauge' | 'counter' | 'setGauge' | 'increment'>;
  /** Changes with every commit to the database. Undefined if the database cannot tell. */
  commitVersion: (() => unknown) | undefined;
  responseCacheBytes: number;
  /** Null on a server that does not serve the metrics. */
  metrics: MetricsOptions | null;
  /** Called for every request that has ended: answered, also from the cache, or aborted by its client. */
  onServed(served: ServedRequest): void;
  onRefusedAccess(refused: RefusedRequest): void;
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

const handshakeTimeoutMs = 10_000;

const methods: HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Creates the HTTP server. Each route validates a request, calls one service and sends the result. */
export async function createServer(deps: ServerDeps): Promise<FastifyInstance> {
  const limits = createRateLimits(deps.rateLimits, () => performance.now());
  const address = clientAddress(deps.trustProxy);
  const logAccess = createAccessLog(deps.log, deps.accessLog);
  const onServed = (served: ServedRequest) => {
    deps.onServed(served);
    logAccess(served);
  };
  const connectionErrors = createConnectionErrorHandler({
    log: deps.log,
    address,
    connectionOf: (stream) => connections.connectionOf(stream),
    onServed,
  });
  const spans = createRequestSpans(deps.tracing);
  const cache = createResponseCache({
    commitVersion: deps.commitVersion,
    maxBytes: deps.responseCacheBytes,
    limits,
    now: Date.now,
    requestId: ({ headers }) => toRequestId(headers['x-request-id']),
    address,
    onServed,
    recordSpan: spans.onCachedResponse,
  });
  const options: FastifyServerOptions = {
    loggerInstance: deps.log,
    // The address of a request is that of its client if these proxies report it.
    trustProxy: deps.trustProxy.length > 0 && [...deps.trustProxy],
    logController: new LogController({ disableRequestLogging: true }),
    // Creating a child logger for each request costs time, and nothing uses it.
    childLoggerFactory: (logger) => logger,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // Bodies of submissions are streams, to which it does not apply.
    bodyLimit: maxJsonBytes,
    // Unknown fields are errors, and many errors are reported at once: `maxJsonBytes` bounds the work. The schemas are our
    // own: tests check them.
    ajv: {
      // Without `strictNumbers`, `minimum` and `maximum` apply to Infinity too, which is what 1e309 is converted to.
      customOptions: {
        removeAdditional: false,
        allErrors: true,
        coerceTypes: true,
        strictNumbers: false,
        validateSchema: false,
      },
    },
    schemaController: { compilersFactory: { buildValidator: lazyValidators, buildSerializer } },
    requestTimeout: deps.requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => toRequestId(headers['x-request-id']),
    clientErrorHandler: connectionErrors.rejectRequest,
    frameworkErrors: (error, request, reply) => {
      // A path that cannot be percent-decoded matches no route.
      const message = 'The path is not well-formed. Send it percent-encoded.';
      reportServed(request as FastifyRequest, reply as FastifyReply, onServed);
      const refusal = catchError(() => limits.anonymous(request as FastifyRequest, reply as FastifyReply));
      const problem = refusal ?? new BursarError('not_found', message, { cause: error });
      sendProblem(problem, request.id, reply as FastifyReply);
    },
  };
  const app = createFastify(options, deps.certificate);
  app.decorateRequest('caller', null);
  app.decorateRequest('isManager', false);
  app.decorateRequest('span', null);
  app.decorateRequest('commitVersion', undefined);
  app.decorateReply('cacheUntil', 0);
  app.decorateReply('firstByteMs', undefined);

  const notFound = (request: FastifyRequest, reply: FastifyReply) => {
    limits.anonymous(request, reply);
    const { method, url } = request;
    // Routes for the other methods of each path would take a tenth of the start.
    const supported = methods.filter((each) => app.findRoute({ method: each, url }) !== null);
    if (supported.length > 0) {
      const allow = supported.join(', ');
      reply.header('allow', allow);
      return new BursarError('method_not_allowed', `${method} is not supported on this path. Use ${allow}.`);
    }
    return new BursarError('not_found', 'There is nothing at this path. See /docs/.');
  };
  // These hooks use callbacks: an async hook costs every request another turn of the event loop.
  app.addHook('onRequest', (request, reply, done) => {
    reportServed(request, reply, onServed);
    spans.onRequest(request, reply);
    cache.onRequest(request);
    connectionErrors.track(reply.raw);
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
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
  app.addHook('onSend', (request, reply, payload, done) => {
    // Fastify adds a charset, which application/json does not have.
    const type = reply.getHeader('content-type');
    if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
    if (type === 'text/event-stream') reply.firstByteMs = reply.elapsedTime;
    cache.onSend(request, reply, payload);
    done(null, payload);
  });
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drainBody(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    if (isRefusedAccess(error)) deps.onRefusedAccess(toRefusedRequest(error, request));
    const { isPage } = request.routeOptions.config;
    const problem = (isPage ? sendErrorPage : sendProblem)(toRequestError(error), request.id, reply);
    if (problem.status >= 500 && !isIntended(error))
      deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
  cache.install(app.server);
  const connections = applyConnectionLimits(app, deps);
  app.server.on('checkExpectation', connectionErrors.rejectExpectation);

  checkQueryParameters(app);
  if (deps.servesCallers) await registerOpenApi(app, deps.version, deps.systems, limits);
  await app.register(async (instance) => probeRoutes(instance, { ...deps, limits }));
  if (deps.servesCallers) await registerRoutes(app, { ...deps, hasTls: deps.certificate !== undefined }, limits);
  return app;
}

function applyConnectionLimits(
  app: FastifyInstance,
  { connectionLimits, slowReaderLimits, registry, log }: ServerDeps,
) {
  const connections = limitConnections(app.server, {
    limits: connectionLimits,
    onCount: (count) => registry.setGauge('bursar_connections', {}, count),
    onRefusal: () => registry.increment('bursar_connections_cut_total', { reason: 'too_many_connections' }),
    endWithError: (socket, error) => endWithProblem(socket, error, randomUUID()),
  });
  const stopWatch = watchSlowReaders(connections.streams, slowReaderLimits, (socket) => {
    registry.increment('bursar_connections_cut_total', { reason: 'slow_reader' });
    log.info({ address: socket.remoteAddress }, 'client disconnected: it reads its response too slowly');
    socket.destroy();
  });
  app.addHook('preClose', async () => connections.closeUnused());
  app.addHook('onClose', async () => stopWatch());
  return connections;
}

/** The address that Fastify's `request.ip` is, for requests that Fastify does not see. */
function clientAddress(trustProxy: readonly string[]): (request: IncomingMessage) => string {
  if (trustProxy.length === 0) return ({ socket }) => socket.remoteAddress ?? '';
  const isTrusted = proxyAddr.compile([...trustProxy]);
  return (request) => proxyAddr(request, isTrusted);
}

/** Creates Fastify on a server with or without TLS: only the type of `app.server` differs, which also speaks HTTP/1.1. */
function createFastify(options: FastifyServerOptions, certificate: Certificate | undefined): FastifyInstance {
  // The hook `onRequest` rejects a request without Host, with a problem document. A request without a body needs no stream.
  const http = { requireHostHeader: false, optimizeEmptyRequests: true };
  if (certificate === undefined) return fastify({ ...options, http });
  const https = { ...http, ...certificate.options, handshakeTimeout: handshakeTimeoutMs };
  return fastify({ ...(options as object), https }) as unknown as FastifyInstance;
}

/** By default Fastify compiles a serializer for every schema, which slows down the start and takes memory. */
const buildSerializer = () => () => JSON.stringify;

function toRefusedRequest(error: BursarError, request: FastifyRequest): RefusedRequest {
  const { caller, ip: address, id: requestId, method, url } = request;
  return { error, caller, address, requestId, method, path: loggablePath(url) };
}

function catchError(run: () => void): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Responses with 503 that are meant so: an operator need not look. */
const intendedUnavailability = new Set<ErrorCode>(['system_paused', 'server_busy']);
const isIntended = (error: unknown) => error instanceof BursarError && intendedUnavailability.has(error.code);
