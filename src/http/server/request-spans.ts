import type { IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Span, Tracing } from '../../tracing/tracing.ts';

/** Programs call them every few seconds, and nobody looks for their traces. */
const untracedRoutes = new Set(['/livez', '/readyz', '/metrics']);

const firstServerError = 500;

/** Records a span for each request, in the trace of its caller if there is a `traceparent`. */
export function createRequestSpans(tracing: Tracing | null) {
  function startSpan({ method = '', headers }: IncomingMessage, route: string | undefined, startedAt: number) {
    if (tracing === null || (route !== undefined && untracedRoutes.has(route))) return null;
    const parent = headers.traceparent?.toString() ?? null;
    const name = route === undefined ? method : `${method} ${route}`;
    const attributes = {
      'http.request.method': method,
      ...(route === undefined ? {} : { 'http.route': route }),
    };
    return tracing.startSpan(name, { kind: 'server', parent, startedAt, attributes });
  }

  function endSpan(span: Span, status: number): void {
    span.end({ attributes: { 'http.response.status_code': status }, hasFailed: status >= firstServerError });
  }

  return {
    onRequest(request: FastifyRequest, reply: FastifyReply): void {
      const span = startSpan(request.raw, request.routeOptions.url, Date.now());
      if (span === null) return;
      request.span = span;
      reply.raw.once('close', () => endSpan(span, reply.statusCode));
    },
    /** Records a response from the cache. Returns the id of its trace. */
    onCachedResponse(request: IncomingMessage, response: { route: string | undefined; status: number; ms: number }) {
      const span = startSpan(request, response.route, Date.now() - response.ms);
      if (span !== null) endSpan(span, response.status);
      return span?.traceId;
    },
  };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null without tracing. */
    span: Span | null;
  }
}
