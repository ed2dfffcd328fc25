import type { FastifyRequest } from 'fastify';
import type { Actor } from '../services/actor.ts';

const actors = new WeakMap<FastifyRequest, Actor>();

/** A hook that turns the bearer token into the caller, or ends the request. It runs before any body is read. */
export function requireActor(authenticate: (authorization: string | undefined) => Promise<Actor>) {
  return async (request: FastifyRequest): Promise<void> => {
    actors.set(request, await authenticate(request.headers.authorization));
  };
}

export function actorOf(request: FastifyRequest): Actor {
  const actor = actors.get(request);
  if (actor === undefined) throw new Error('this route does not require a token');
  return actor;
}
