import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Actor, Caller } from '../../services/identity/actor.ts';
import type { RateLimits } from '../server/rate-limits.ts';

/** Adds a hook that turns the bearer token into the caller, or rejects the request before its body is read. */
export function requireToken(
  app: FastifyInstance,
  authenticate: (authorization: string | undefined) => Promise<Caller>,
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

declare module 'fastify' {
  interface FastifyRequest {
    /** Null on routes that need no token. */
    caller: Caller | null;
  }
}
