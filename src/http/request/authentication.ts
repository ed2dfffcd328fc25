import type { FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Caller } from '../../services/identity/actor.ts';
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

/** Turns the token or the session of a request into its caller, or rejects the request before its body is read. */
export async function requireCaller(
  request: FastifyRequest,
  reply: FastifyReply,
  {
    authenticate,
    limits,
    browser,
  }: {
    authenticate: Authenticate;
    limits: Pick<RateLimits, 'caller' | 'anonymous' | 'invalidToken'>;
    browser: Pick<Browser, 'requireOwnScript'>;
  },
): Promise<void> {
  const caller = await authenticate(request).catch((error) => {
    const isInvalid = error instanceof BursarError && error.code === 'token_invalid';
    limits[isInvalid ? 'invalidToken' : 'anonymous'](request, reply);
    throw error;
  });
  limits.caller(reply, caller);
  request.caller = caller;
  // A browser adds the cookie to requests of other sites too.
  if (caller.sessionId !== null && !safeMethods.has(request.method)) browser.requireOwnScript(request);
}

export function callerOf(request: FastifyRequest): Caller {
  if (request.caller === null) throw new Error('this route does not require a token');
  return request.caller;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes that need no token. */
    caller: Caller | null;
  }
}
