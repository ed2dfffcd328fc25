import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { Actor, Caller } from '../../services/identity/actor.ts';
import type { RateLimits } from '../server/rate-limits.ts';

/** Turns the value of an Authorization header into the caller. Rejects if the token is not valid. */
export type Authenticate = (authorization: string | undefined) => Promise<Caller>;

/** Adds a hook that turns the bearer token into the caller, or rejects the request before its body is read. */
export function requireToken(
  app: FastifyInstance,
  authenticate: Authenticate,
  limits: Pick<RateLimits, 'caller' | 'anonymous'>,
): void {
  app.addHook('onRequest', async (request: FastifyRequest, reply: FastifyReply) => {
    const caller = await authenticate(request.headers.authorization).catch((error) => {
      limits.anonymous(request, reply);
      throw error;
    });
    limits.caller(reply, caller);
    request.caller = caller;
  });
}

export function actorOf(request: FastifyRequest): Actor {
  if (request.caller === null) throw new Error('this route does not require a token');
  return request.caller;
}

/**
 * For responses that last: a token may expire, be revoked or lose the administrator role meanwhile. The result rejects if
 * the token no longer belongs to the same user with the same rights.
 */
export function accessCheck(request: FastifyRequest, authenticate: Authenticate): () => Promise<void> {
  const { userId, admin } = actorOf(request);
  return async () => {
    const current = await authenticate(request.headers.authorization);
    if (current.userId !== userId || (admin && !current.admin))
      throw new BursarError('token_invalid', 'The rights of this token have changed. Connect again.');
  };
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes that need no token. */
    caller: Caller | null;
  }
}
