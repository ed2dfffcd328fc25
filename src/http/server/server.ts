import { Readable } from 'node:stream';
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
import { drainBody } from '../request/drain-body.ts';
import { maxJsonBytes, sendError, sendProblem, toRequestError } from '../response/send-error.ts';
import { type RouteDeps, registerRoutes } from '../routes/register-routes.ts';
import { type AccessLogSettings, createAccessLog, loggablePath } from './access-log.ts';
import type { Certificate } from './certificate.ts';
import { clientAddress } from './client-network.ts';
import { createConnectionErrorHandler } from './connection-errors.ts';
import { type ConnectionLimits, superviseConnections } from './connections.ts';
import { createRateLimits, type RateLimitSettings } from './rate-limits.ts';
import { toRequestId } from './request-id.ts';
import { createRequestSpans } from './request-spans.ts';
import { createResponseCache } from './response-cache.ts';
import { reportServed, type ServedRequest } from './served-request.ts';

export interface ServerDeps extends Omit<RouteDeps, 'hasTls'> {
  log: FastifyBaseLogger;
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  accessLog: AccessLogSettings;
  /** Undefined for a server without TLS. */
  certificate: Certificate | undefined;
  requestTimeoutMs: number;
  /** Addresses and networks of the proxies whose X-Forwarded-For counts. */
  trustProxy: readonly string[];
  rateLimits: RateLimitSettings;
  connectionLimits: ConnectionLimits;
  registry: Pick<Metrics, 'gauge' | 'counter' | 'setGauge' | 'increment'>;
  /** Changes with every commit to the database. Undefined if the database cannot tell. */
  commitVersion: (() => unknown) | undefined;
  responseCacheBytes: number;
  /** Called for every request that has ended: answered, also from the cache, or aborted by its client. */
  onServed(served: ServedRequest): void;
  onRefusedAccess(refused: RefusedRequest): void;
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
  const connections = createConnectionErrorHandler({ log: deps.log, address, onServed });
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
    // Routes have no schemas of Fastify: `request/validation.ts` checks requests.
    schemaController: { compilersFactory: { buildValidator: unused, buildSerializer: unused } },
    requestTimeout: deps.requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => toRequestId(headers['x-request-id']),
    clientErrorHandler: connections.rejectRequest,
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
    connections.track(reply.raw);
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
    const problem = sendError(toRequestError(error), request, reply);
    if (problem.status >= 500 && !isIntended(error))
      deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
  cache.install(app.server);
  superviseConnections(app, {
    limits: deps.connectionLimits,
    log: deps.log,
    onCount: (count) => deps.registry.setGauge('bursar_connections', {}, count),
    onCut: (reason) => deps.registry.increment('bursar_connections_cut_total', { reason }),
  });
  app.server.on('checkExpectation', connections.rejectExpectation);

  await registerRoutes(app, { ...deps, hasTls: deps.certificate !== undefined }, limits);
  return app;
}

/** Creates Fastify on a server with or without TLS: only the type of `app.server` differs, which also speaks HTTP/1.1. */
function createFastify(options: FastifyServerOptions, certificate: Certificate | undefined): FastifyInstance {
  // The hook `onRequest` rejects a request without Host, with a problem document. A request without a body needs no stream.
  const http = { requireHostHeader: false, optimizeEmptyRequests: true };
  if (certificate === undefined) return fastify({ ...options, http });
  const https = { ...http, ...certificate.options, handshakeTimeout: handshakeTimeoutMs };
  return fastify({ ...(options as object), https }) as unknown as FastifyInstance;
}

/** Keeps Fastify from loading its compilers. */
const unused = () => () => {
  throw new Error('routes have no schemas of Fastify');
};

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
