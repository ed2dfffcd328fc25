import { randomUUID } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
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
import { createOpenRequests, limitConnections, type OpenRequestLimits } from '../limits/concurrency.ts';
import { createRateLimits, type RateLimitSettings } from '../limits/rate-limits.ts';
import { disconnectSlowReaders, type SlowReaderLimits } from '../limits/slow-readers.ts';
import { maxJsonBytes, sendError, toRequestError } from '../response/problem.ts';
import { type RouteDeps, registerRoutes } from '../routes/register-routes.ts';
import type { Certificate } from './certificate.ts';
import { createConnectionErrorHandler, drainBody, endWithProblem } from './connection-errors.ts';
import {
  createAccessLog,
  loggablePath,
  recordSpan,
  reportServed,
  type ServedRequest,
  toRequestId,
} from './served-request.ts';

export interface ServerDeps extends Omit<RouteDeps, 'hasTls' | 'rates' | 'countOpenRequest'> {
  log: FastifyBaseLogger;
  /** Addresses and networks of the proxies whose X-Forwarded-For counts. */
  trustProxy: readonly string[];
  requestTimeoutMs: number;
  /** Undefined for a server without TLS. */
  certificate: Certificate | undefined;
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  /** Part of the requests that are logged, see `createAccessLog`. */
  logSampleRatio: number;
  limits: {
    rates: RateLimitSettings;
    openRequests: OpenRequestLimits;
    maxConnections: number;
    slowReaders: SlowReaderLimits;
  };
  registry: Pick<Metrics, 'setGauge' | 'increment'>;
  /** Called for every request that has ended: answered, or aborted by its client. */
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

/** Creates the HTTP server. Each route validates a request, calls one use case and sends the result. */
export async function createServer(deps: ServerDeps): Promise<FastifyInstance> {
  const { log, limits, registry } = deps;
  const rates = createRateLimits(limits.rates, () => performance.now());
  const countOpenRequest = createOpenRequests(limits.openRequests, registry);
  const logAccess = createAccessLog(log, deps.logSampleRatio);
  const onServed = (served: ServedRequest) => {
    deps.onServed(served);
    logAccess(served);
  };
  /** The responses in progress. */
  const responses = new WeakMap<Socket, ServerResponse>();
  const app = createFastify(deps, {
    clientErrorHandler: createConnectionErrorHandler(log, responses, (stream) => connections.socketOf(stream)),
    frameworkErrors: (error, anyRequest, anyReply) => {
      const [request, reply] = [anyRequest as FastifyRequest, anyReply as FastifyReply];
      reportServed(request, reply, onServed);
      try {
        rates.anonymous(request, reply);
        // A path that cannot be percent-decoded matches no route.
        const message = 'The path is not well-formed. Send it percent-encoded.';
        throw new BursarError('not_found', message, { cause: error });
      } catch (problem) {
        sendError(problem, request, reply);
      }
    },
  });
  app.decorateRequest('caller', null);
  app.decorateRequest('isManager', false);
  app.decorateRequest('idempotency', null);
  app.decorateRequest('span', null);
  app.decorateReply('firstByteMs', undefined);

  // These hooks use callbacks: an async hook costs every request another turn of the event loop.
  app.addHook('onRequest', (request, reply, done) => {
    reportServed(request, reply, onServed);
    recordSpan(deps.tracing, request, reply);
    responses.set(request.raw.socket, reply.raw);
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    if (request.is404) {
      rates.anonymous(request, reply);
      return done(notFound(app, request, reply) as Error);
    }
    const error = findHeaderError(request);
    if (error !== undefined) reply.header('connection', 'close');
    done(error as Error | undefined);
  });
  // Node makes no stream for a request without a body. Fastify would wait for its end if the request has a content type.
  app.addHook('preParsing', (request, _reply, payload, done) => {
    const isEmpty = request.raw.destroyed && request.headers['content-type'] !== undefined;
    done(null, isEmpty ? Readable.from([]) : payload);
  });
  app.addHook('onSend', (_request, reply, payload, done) => {
    // Fastify adds a charset, which application/json does not have.
    const type = reply.getHeader('content-type');
    if (type === 'application/json; charset=utf-8') reply.header('content-type', 'application/json');
    if (type === 'text/event-stream') reply.firstByteMs = reply.elapsedTime;
    done(null, payload);
  });
  // After the client has sent its body.
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drainBody(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    const { caller, ip: address, id: requestId, method, url } = request;
    if (isRefusedAccess(error))
      deps.onRefusedAccess({ error, caller, address, requestId, method, path: loggablePath(url) });
    const problem = sendError(toRequestError(error), request, reply);
    if (problem.status >= 500 && !isIntended(error)) log.error({ reqId: requestId, err: error }, 'request failed');
    return reply;
  });
  const connections = limitConnections(app.server, limits.maxConnections, registry, (socket, error) => {
    endWithProblem(socket, error, randomUUID());
  });
  const stopChecks = disconnectSlowReaders(connections.open, limits.slowReaders, registry, log);
  app.addHook('preClose', async () => connections.closeUnused());
  app.addHook('onClose', async () => stopChecks());
  // Node itself would send an empty response.
  app.server.on('checkExpectation', app.routing);

  await registerRoutes(app, { ...deps, rates, countOpenRequest, hasTls: deps.certificate !== undefined });
  return app;
}

/** Creates Fastify on a server with or without TLS: only the type of `app.server` differs, which also speaks HTTP/1.1. */
function createFastify(
  { log, trustProxy, requestTimeoutMs, certificate }: ServerDeps,
  handlers: Pick<FastifyServerOptions, 'clientErrorHandler' | 'frameworkErrors'>,
): FastifyInstance {
  const options: FastifyServerOptions = {
    ...handlers,
    loggerInstance: log,
    // The address of a request is that of its client if these proxies report it.
    trustProxy: trustProxy.length > 0 && [...trustProxy],
    logController: new LogController({ disableRequestLogging: true }),
    // Creating a child logger for each request costs time, and nothing uses it.
    childLoggerFactory: (logger) => logger,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 16_384 },
    // Bodies of submissions are streams, to which it does not apply.
    bodyLimit: maxJsonBytes,
    // Routes have no schemas of Fastify: `request/validation.ts` checks requests.
    schemaController: { compilersFactory: { buildValidator: unused, buildSerializer: unused } },
    requestTimeout: requestTimeoutMs,
    return503OnClosing: false,
    genReqId: ({ headers }) => toRequestId(headers['x-request-id']),
  };
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

/** 404, or 405 with the methods of the path: routes for the other methods of each path would take a tenth of the start. */
function notFound(app: FastifyInstance, { method, url }: FastifyRequest, reply: FastifyReply): BursarError {
  const supported = methods.filter((each) => app.findRoute({ method: each, url }) !== null);
  if (supported.length === 0) return new BursarError('not_found', 'There is nothing at this path. See /docs/.');
  const allow = supported.join(', ');
  reply.header('allow', allow);
  return new BursarError('method_not_allowed', `${method} is not supported on this path. Use ${allow}.`);
}

/** Finds what Node would reject without a problem document. It handles `100-continue` itself. */
function findHeaderError({ headers: { host, expect }, raw }: FastifyRequest): BursarError | undefined {
  if (raw.httpVersion !== '1.1') return undefined;
  if (host === undefined) {
    return new BursarError('bad_request', 'The header Host is missing. Send it: HTTP/1.1 requires it.');
  }
  if (expect === undefined || expect.toLowerCase() === '100-continue') return undefined;
  const message = `"Expect: ${expect.slice(0, 64)}" is not supported. Leave out the header.`;
  return new BursarError('expectation_failed', message);
}

/** An operator need not look at these responses with 503. */
const intendedUnavailability = new Set<ErrorCode>(['system_paused', 'server_busy']);
const isIntended = (error: unknown) => error instanceof BursarError && intendedUnavailability.has(error.code);

const idleCheckMs = 100;

/** Waits for the requests in progress. After `drainMs` their connections are closed. */
export async function closeServer(app: FastifyInstance, drainMs: number): Promise<void> {
  const deadline = setTimeout(() => app.server.closeAllConnections(), drainMs);
  // A response that began before has no `Connection: close`, so its keep-alive connection becomes idle after it.
  const idleCheck = setInterval(() => app.server.closeIdleConnections(), idleCheckMs);
  await app.close();
  clearInterval(idleCheck);
  clearTimeout(deadline);
}
