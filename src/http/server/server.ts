import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { BursarError, type ErrorCode } from '../../domain/errors.ts';
import type { Metrics } from '../../metrics/metrics.ts';
import type { RefusedRequest } from '../../services/identity/refusal-recorder.ts';
import { isRefusedAccess } from '../../services/identity/refused-access.ts';
import type { Tracing } from '../../tracing/tracing.ts';
import { createLimits, type LimitSettings } from '../limits/limits.ts';
import { drainBody } from '../request/drain-body.ts';
import { sendError, sendProblem, toRequestError } from '../response/send-error.ts';
import { type RouteDeps, registerRoutes } from '../routes/register-routes.ts';
import { type AccessLogSettings, createAccessLog, loggablePath } from './access-log.ts';
import { createConnectionErrorHandler, endWithProblem } from './connection-errors.ts';
import { createFastify, type FastifySettings } from './create-fastify.ts';
import { recordSpan } from './request-spans.ts';
import { reportServed, type ServedRequest } from './served-request.ts';

export interface ServerDeps extends FastifySettings, Omit<RouteDeps, 'hasTls' | 'openRequests'> {
  /** Null if nothing is traced. */
  tracing: Tracing | null;
  accessLog: AccessLogSettings;
  limits: LimitSettings;
  registry: Pick<Metrics, 'gauge' | 'counter' | 'setGauge' | 'increment'>;
  /** Called for every request that has ended: answered, or aborted by its client. */
  onServed(served: ServedRequest): void;
  onRefusedAccess(refused: RefusedRequest): void;
}

/**
 * The time limit for reading the rest of a rejected request. Less than the request timeout, which closes the connection without a
 * response.
 */
const maxDrainMs = 30_000;

const methods: HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Creates the HTTP server. Each route validates a request, calls one service and sends the result. */
export async function createServer(deps: ServerDeps): Promise<FastifyInstance> {
  const { rates, openRequests, install } = createLimits({
    settings: deps.limits,
    registry: deps.registry,
    log: deps.log,
    endWithError: (connection, error) => endWithProblem(connection, error, randomUUID()),
  });
  const logAccess = createAccessLog(deps.log, deps.accessLog);
  const onServed = (served: ServedRequest) => {
    deps.onServed(served);
    logAccess(served);
  };
  const connectionErrors = createConnectionErrorHandler({
    log: deps.log,
    socketOf: (stream) => connections.socketOf(stream),
  });
  const app = createFastify(deps, {
    clientErrorHandler: connectionErrors.rejectRequest,
    frameworkErrors: (error, request, reply) => {
      // A path that cannot be percent-decoded matches no route.
      const message = 'The path is not well-formed. Send it percent-encoded.';
      reportServed(request as FastifyRequest, reply as FastifyReply, onServed);
      const refusal = catchError(() => rates.anonymous(request as FastifyRequest, reply as FastifyReply));
      const problem = refusal ?? new BursarError('not_found', message, { cause: error });
      sendProblem(problem, request.id, reply as FastifyReply);
    },
  });
  app.decorateRequest('caller', null);
  app.decorateRequest('isManager', false);
  app.decorateRequest('span', null);
  app.decorateReply('firstByteMs', undefined);

  const notFound = (request: FastifyRequest, reply: FastifyReply) => {
    rates.anonymous(request, reply);
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
    recordSpan(deps.tracing, request, reply);
    connectionErrors.track(reply.raw);
    reply.header('x-request-id', request.id).header('x-content-type-options', 'nosniff');
    if (request.is404) return done(notFound(request, reply) as Error);
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
  handleErrors(app, deps);
  const connections = install(app);
  // Node itself would send an empty response.
  app.server.on('checkExpectation', app.routing);

  await registerRoutes(app, { ...deps, openRequests, hasTls: deps.certificate !== undefined }, rates);
  return app;
}

/** What Node would reject without a problem document. It handles `100-continue` itself. */
function findHeaderError({ headers: { host, expect }, raw }: FastifyRequest): BursarError | undefined {
  if (raw.httpVersion !== '1.1') return undefined;
  if (host === undefined) {
    return new BursarError('bad_request', 'The header Host is missing. Send it: HTTP/1.1 requires it.');
  }
  if (expect === undefined || expect.toLowerCase() === '100-continue') return undefined;
  const message = `"Expect: ${expect.slice(0, 64)}" is not supported. Leave out the header.`;
  return new BursarError('expectation_failed', message);
}

function catchError(run: () => void): unknown {
  try {
    run();
    return undefined;
  } catch (error) {
    return error;
  }
}

/** Sends the problem document or the page of an error, after the client has sent its body. */
function handleErrors(app: FastifyInstance, deps: ServerDeps): void {
  app.setErrorHandler<FastifyError>(async (error, request, reply) => {
    await drainBody(request.raw, Math.min(maxDrainMs, deps.requestTimeoutMs / 2));
    if (isRefusedAccess(error)) deps.onRefusedAccess(toRefusedRequest(error, request));
    const problem = sendError(toRequestError(error), request, reply);
    if (problem.status >= 500 && !isIntended(error))
      deps.log.error({ reqId: request.id, err: error }, 'request failed');
    return reply;
  });
}

function toRefusedRequest(error: BursarError, request: FastifyRequest): RefusedRequest {
  const { caller, ip: address, id: requestId, method, url } = request;
  return { error, caller, address, requestId, method, path: loggablePath(url) };
}

/** Responses with 503 that are meant so: an operator need not look. */
const intendedUnavailability = new Set<ErrorCode>(['system_paused', 'server_busy']);
const isIntended = (error: unknown) => error instanceof BursarError && intendedUnavailability.has(error.code);
