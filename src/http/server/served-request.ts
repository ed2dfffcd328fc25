import { randomUUID } from 'node:crypto';
import type { Socket } from 'node:net';
import type { FastifyBaseLogger, FastifyReply, FastifyRequest } from 'fastify';
import type { Metrics } from '../../metrics/metrics.ts';
import type { Caller } from '../../services/identity/actor.ts';
import type { Span, Tracing } from '../../tracing/tracing.ts';

/** The X-Request-Id of the caller, if it is harmless in a log and no token, or a new id. */
export function toRequestId(header: string | string[] | undefined): string {
  return typeof header === 'string' && /^(?!.*bursar_)[\w.-]{1,64}$/.test(header) ? header : randomUUID();
}

/** A request that has ended, for the access log and the metrics. */
export interface ServedRequest {
  requestId: string;
  method: string;
  url: string;
  /** The path of the route, with the names of its parameters: `/jobs/:hpc/`. Undefined if no route has the path. */
  route: string | undefined;
  /** The status that was sent. 499, as in nginx, for a client that disconnected before that. */
  status: number;
  ms: number;
  /** Like `ms`, but for an event stream the time to its first byte. */
  latencyMs: number;
  /** Bytes sent, headers included. */
  bytes: number;
  /** Whether the client disconnected before the end of the response. Event streams usually end so: false for them. */
  isAborted: boolean;
  /** The id of its trace, if it is traced. */
  traceId?: string | undefined;
  /** The IP address of the client. */
  address: string;
  /** Null for a request without valid credentials. */
  caller: Pick<Caller, 'userId' | 'tokenId' | 'sessionId'> | null;
}

/** Calls `onServed` when the response was sent, or when its client has disconnected: Fastify reports only the first. */
export function reportServed(
  request: FastifyRequest,
  reply: FastifyReply,
  onServed: (served: ServedRequest) => void,
): void {
  const { raw } = reply;
  raw.on('close', () => {
    const { firstByteMs, elapsedTime: ms } = reply;
    const { id: requestId, method, url, ip: address } = request;
    onServed({
      requestId,
      method,
      url,
      route: request.routeOptions.url,
      status: raw.headersSent ? raw.statusCode : 499,
      ms,
      latencyMs: firstByteMs ?? ms,
      bytes: takeSentBytes(request.raw.socket),
      isAborted: !raw.writableFinished && firstByteMs === undefined,
      traceId: request.span?.traceId,
      address,
      // Undefined for a path that no route can match.
      caller: request.caller ?? null,
    });
  });
}

const reportedBytes = new WeakMap<Socket, number>();

/** The bytes sent on a connection since the last call: those of one response, because responses are sent one after another. */
function takeSentBytes(socket: Socket): number {
  const total = socket.bytesWritten ?? 0;
  const bytes = total - (reportedBytes.get(socket) ?? 0);
  reportedBytes.set(socket, total);
  return bytes;
}

/** Programs call them every few seconds, and nobody looks for them in the log or for their traces. */
const probeRoutes = new Set(['/livez', '/readyz', '/metrics']);

const slowRequestMs = 1000;

/**
 * Logs one line for every request that has ended, or for the given part of them, from 0 to 1. Errors and slow requests are
 * logged anyway.
 */
export function createAccessLog(log: FastifyBaseLogger, sampleRatio: number) {
  return (served: ServedRequest): void => {
    const { address, caller, requestId, method, route, url, status, ms, bytes, isAborted, traceId } = served;
    const isSampled = sampleRatio < 1 && status < 400 && ms < slowRequestMs;
    if (isSampled && Math.random() >= sampleRatio) return;
    // Undefined fields are left out.
    const fields = {
      address,
      user: caller?.userId,
      token: caller?.tokenId ?? undefined,
      session: caller?.sessionId ?? undefined,
      reqId: requestId,
      method,
      route,
      path: loggablePath(url),
      status,
      ms: Math.round(ms * 10) / 10,
      bytes,
      aborted: isAborted || undefined,
      trace_id: traceId,
      // The line stands for 1 / sampleRatio requests.
      sampleRatio: isSampled ? sampleRatio : undefined,
    };
    const isProbe = route !== undefined && probeRoutes.has(route) && status < 400;
    log[isProbe ? 'debug' : 'info'](fields, 'request served');
  };
}

const maxPathLength = 500;
const secretInPath = /bursar_[\w-]+|eyJ[\w.-]+|whsec_[\w+/=-]+/g;

/** Drops the query and masks everything that looks like a secret, even if some of its characters are percent-encoded. */
export function loggablePath(url: string): string {
  const [path = ''] = url.slice(0, maxPathLength).split('?', 1);
  const decoded = path.replace(/%([2-7][0-9a-f])/gi, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  const masked = decoded.replace(secretInPath, '***');
  return masked === decoded ? path : masked;
}

/** Every other method has the label `other`: clients choose the method. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Counts and measures every response. */
export function createRequestMetrics(metrics: Pick<Metrics, 'increment' | 'observe'>) {
  return ({ method: anyMethod, route = 'unmatched', status, isAborted, latencyMs }: ServedRequest): void => {
    const method = methods.has(anyMethod) ? anyMethod : 'other';
    metrics.increment('bursar_http_requests_total', { method, status: isAborted ? 'aborted' : String(status) });
    // Paths are not labels: clients choose them.
    const labels = { method, route, status: isAborted ? 'aborted' : `${Math.floor(status / 100)}xx` };
    metrics.observe('bursar_http_request_duration_seconds', labels, latencyMs / 1000);
  };
}

/** Records a span for a request, in the trace of its caller if there is a `traceparent`. */
export function recordSpan(tracing: Tracing | null, request: FastifyRequest, reply: FastifyReply): void {
  const { method, headers, routeOptions } = request;
  const { url: route } = routeOptions;
  if (tracing === null || (route !== undefined && probeRoutes.has(route))) return;
  const name = route === undefined ? method : `${method} ${route}`;
  const attributes = { 'http.request.method': method, ...(route !== undefined && { 'http.route': route }) };
  const parent = headers.traceparent?.toString() ?? null;
  const span = tracing.startSpan(name, { kind: 'server', parent, startedAt: Date.now(), attributes });
  request.span = span;
  reply.raw.once('close', () => {
    const status = reply.statusCode;
    span.end({ attributes: { 'http.response.status_code': status }, hasFailed: status >= 500 });
  });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null without tracing. */
    span: Span | null;
  }
  interface FastifyReply {
    /** When the first byte of an event stream was sent, in milliseconds since the request. */
    firstByteMs: number | undefined;
  }
}
