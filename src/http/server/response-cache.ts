import type { IncomingMessage, RequestListener, Server, ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { LRUCache } from 'lru-cache';
import type { Caller } from '../../services/identity/actor.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { type ServedRequest, takeSentBytes } from './served-request.ts';

interface CachedResponse {
  caller: Pick<Caller, 'userId' | 'tokenId' | 'sessionId'>;
  route: string | undefined;
  /** Counts a request of the caller against the rate limits. */
  countRequest(): string | undefined;
  status: number;
  /** Names and values in turn, without the headers that differ from one response to the next. */
  headers: readonly string[];
  body: Buffer | string;
  validUntil: number;
}

export interface ResponseCacheDeps {
  /** Changes with every commit. Undefined if the database cannot tell: then nothing is cached. */
  commitVersion: (() => unknown) | undefined;
  maxBytes: number;
  limits: Pick<RateLimits, 'callerCounter'>;
  now(): number;
  requestId(request: IncomingMessage): string;
  /** The IP address of the client. */
  address(request: IncomingMessage): string;
  onServed(served: ServedRequest): void;
  /** Records the span of a response. Returns the id of its trace, if there is one. */
  recordSpan(
    request: IncomingMessage,
    response: { route: string | undefined; status: number; ms: number },
  ): string | undefined;
}

const entryBytes = 1000;
const keyBytes = 100;
/** The memory of the keys of requests that came once. */
const maxAskedOnceBytes = 2_000_000;

/**
 * Caches whole responses to reads, and sends them before Fastify sees the request: routing, hooks and handler take longer
 * than everything else. There is one rule: a commit by anybody empties the cache. So a cached response is always the one
 * that the database would give, except that time passes: `validUntil` covers tokens and periods that end. A response is
 * stored when its request comes for the second time: most requests of many users are never repeated before a commit.
 */
export function createResponseCache(deps: ResponseCacheDeps) {
  const { commitVersion, maxBytes, limits, now, requestId, address, onServed, recordSpan } = deps;
  const responses = new LRUCache<string, CachedResponse>({
    maxSize: maxBytes,
    sizeCalculation: ({ body }, key) => entryBytes + key.length + body.length,
  });
  /** The requests that came once since the last commit. */
  const askedOnce = new Set<string>();
  let askedOnceBytes = 0;
  let version: unknown;

  function clearAfterCommit(): void {
    const current = commitVersion?.();
    if (current === version) return;
    if (responses.size > 0) responses.clear();
    forgetRequests();
    version = current;
  }

  function forgetRequests(): void {
    askedOnce.clear();
    askedOnceBytes = 0;
  }

  /** Whether the request came before, with the same database. */
  function isRepeated(key: string): boolean {
    if (askedOnce.delete(key)) return true;
    // A key may be long: it has the caller's If-None-Match.
    askedOnceBytes += keyBytes + key.length;
    if (askedOnceBytes > maxAskedOnceBytes) forgetRequests();
    askedOnce.add(key);
    return false;
  }

  /** Returns false if the database cannot be read. Fastify then handles the request, and reports the error. */
  function tryClearAfterCommit(): boolean {
    try {
      clearAfterCommit();
      return true;
    } catch {
      return false;
    }
  }

  /** Sends the cached response, if there is one. */
  function send(request: IncomingMessage, response: ServerResponse): boolean {
    const startedAt = performance.now();
    const key = cacheKey(request);
    if (key === undefined || !tryClearAfterCommit()) return false;
    const cached = responses.get(key);
    if (cached === undefined || cached.validUntil <= now()) return false;
    const rateLimit = cached.countRequest();
    if (rateLimit === undefined) return false;
    const id = requestId(request);
    const { status, headers, body, caller, route } = cached;
    response.writeHead(status, [...headers, 'x-request-id', id, 'ratelimit', rateLimit]);
    response.end(body);
    const ms = performance.now() - startedAt;
    onServed({
      requestId: id,
      method: 'GET',
      url: request.url ?? '',
      route,
      status,
      ms,
      latencyMs: ms,
      bytes: takeSentBytes(request.socket),
      isAborted: false,
      traceId: recordSpan(request, { route, status, ms }),
      address: address(request),
      caller,
    });
    return true;
  }

  return {
    /** Puts the cache in front of Fastify's own request listener. */
    install(server: Server): void {
      if (commitVersion === undefined) return;
      const [handleRequest] = server.listeners('request') as RequestListener[];
      if (handleRequest === undefined) throw new Error('the server has no request listener');
      server.removeListener('request', handleRequest);
      server.on('request', (request, response) => {
        // A server that is closing must close its connections, which Fastify does.
        if (!server.listening || !send(request, response)) handleRequest(request, response);
      });
    },

    /** Remembers the database version before anything is read for the request. */
    onRequest(request: FastifyRequest): void {
      if (request.method === 'GET') request.commitVersion = commitVersion?.();
    },

    /** Stores a response that a route has marked as cacheable, unless somebody has committed since the request began. */
    onSend(request: FastifyRequest, reply: FastifyReply, payload: unknown): void {
      const { caller } = request;
      const isSuccess = reply.statusCode === 200 || reply.statusCode === 304;
      if (!isSuccess || reply.cacheUntil === 0 || caller === null || request.commitVersion === undefined) return;
      const body = payload ?? '';
      const key = cacheKey(request.raw);
      const validUntil = Math.min(reply.cacheUntil, caller.validUntil);
      const isComplete = typeof body === 'string' || Buffer.isBuffer(body);
      if (!isComplete || body.length > maxBytes / 8 || validUntil <= now()) return;
      if (key === undefined || reply.hasHeader('connection')) return;
      clearAfterCommit();
      if (request.commitVersion !== version || !isRepeated(key)) return;
      const { userId, tokenId, sessionId } = caller;
      responses.set(key, {
        caller: { userId, tokenId, sessionId },
        route: request.routeOptions.url,
        countRequest: limits.callerCounter(caller),
        status: reply.statusCode,
        headers: staticHeaders(reply, body),
        body,
        validUntil,
      });
    },
  };
}

/** Everything in a request that its response depends on. Undefined if the response cannot come from the cache. */
function cacheKey({ method, url, headers }: IncomingMessage): string | undefined {
  const { authorization, host, 'if-none-match': etags = '' } = headers;
  if (method !== 'GET' || authorization === undefined || host === undefined) return undefined;
  if ('content-length' in headers || 'transfer-encoding' in headers) return undefined;
  // None of the parts can contain a line break.
  return `${url}\n${authorization}\n${etags}`;
}

function staticHeaders(reply: FastifyReply, body: Buffer | string): string[] {
  const { 'x-request-id': _id, ratelimit: _limit, ...headers } = reply.getHeaders();
  const length = reply.statusCode === 304 ? {} : { 'content-length': String(Buffer.byteLength(body)) };
  return Object.entries({ ...headers, ...length }).flatMap(([name, value]) => [name, String(value)]);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** The version of the database when the request began. */
    commitVersion: unknown;
  }
  interface FastifyReply {
    /** The response may be cached until this time, in epoch milliseconds. 0: not at all. */
    cacheUntil: number;
  }
}
