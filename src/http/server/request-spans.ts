import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Span, Tracing } from '../../tracing/tracing.ts';

/** Programs call them every few seconds, and nobody looks for their traces. */
const untracedRoutes = new Set(['/livez', '/readyz', '/metrics']);

const firstServerError = 500;

/** Records a span for a request, in the trace of its caller if there is a `traceparent`. */
export function recordSpan(tracing: Tracing | null, request: FastifyRequest, reply: FastifyReply): void {
  const { method, headers, routeOptions } = request;
  const { url: route } = routeOptions;
  if (tracing === null || (route !== undefined && untracedRoutes.has(route))) return;
  const name = route === undefined ? method : `${method} ${route}`;
  const attributes = { 'http.request.method': method, ...(route === undefined ? {} : { 'http.route': route }) };
  const parent = headers.traceparent?.toString() ?? null;
  const span = tracing.startSpan(name, { kind: 'server', parent, startedAt: Date.now(), attributes });
  request.span = span;
  reply.raw.once('close', () => {
    const status = reply.statusCode;
    span.end({ attributes: { 'http.response.status_code': status }, hasFailed: status >= firstServerError });
  });
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null without tracing. */
    span: Span | null;
  }
}
