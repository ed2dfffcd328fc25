import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Actor, Caller } from '../../services/identity/actor.ts';
import type { RateLimits } from '../server/rate-limits.ts';

const actors = new WeakMap<FastifyRequest, Actor>();

/** A hook that turns the bearer token into the caller, or ends the request. It runs before any body is read. */
export function requireActor(
  authenticate: (authorization: string | undefined) => Promise<Caller>,
  limits: Pick<RateLimits, 'caller' | 'anonymous'>,
  introduce: (request: FastifyRequest, caller: Caller) => void,
) {
  return async (request: FastifyRequest, reply: FastifyReply): Promise<void> => {
    const caller = await authenticate(request.headers.authorization).catch((error) => {
      limits.anonymous(request, reply);
      throw error;
    });
    limits.caller(reply, caller);
    actors.set(request, caller);
    introduce(request, caller);
  };
}

export function actorOf(request: FastifyRequest): Actor {
  const actor = actors.get(request);
  if (actor === undefined) throw new Error('this route does not require a token');
  return actor;
}
