import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Actor, Caller } from '../../services/identity/actor.ts';
import type { Credentials } from '../../services/identity/authenticate.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import type { Browser } from './browser.ts';

/** Turns the token or the session of a request into the caller. Rejects if it is not valid. */
export type Authenticate = (request: FastifyRequest) => Promise<Caller>;

/** The cookies of a request with an Authorization header do not count, and are not parsed. */
export function credentialsOf(request: FastifyRequest, browser: Pick<Browser, 'cookieOf'>): Credentials {
  const { headers, ip, id } = request;
  const { authorization } = headers;
  const session = authorization === undefined ? browser.cookieOf(request, 'session') : undefined;
  return { authorization, session, address: ip, requestId: id };
}

/** Methods that change nothing, as far as browsers are concerned. */
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS']);

/** Adds a hook that turns the token or the session into the caller, or rejects the request before its body is read. */
export function requireAuthentication(
  app: FastifyInstance,
  authenticate: Authenticate,
  limits: Pick<RateLimits, 'caller' | 'anonymous' | 'invalidToken'>,
  browser: Pick<Browser, 'requireOwnScript'>,
): void {
  app.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    const caller = await authenticate(request).catch((error) => {
      const isInvalid = error instanceof BursarError && error.code === 'token_invalid';
      limits[isInvalid ? 'invalidToken' : 'anonymous'](request, reply);
      throw error;
    });
    limits.caller(reply, caller);
    request.caller = caller;
    // A browser adds the cookie to requests of other sites too.
    if (caller.sessionId !== null && !safeMethods.has(request.method)) browser.requireOwnScript(request);
  });
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('this route does not require a token');
  return request.caller;
}

/** The caller, where the credentials do not matter. */
export function actorOf(request: FastifyRequest): Actor {
  return callerOf(request);
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes that need no token. */
    caller: Caller | null;
  }
}
