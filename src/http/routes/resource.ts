import type { FastifyInstance, RouteOptions } from 'fastify';
import type { RouteAccess } from '../request/authorization.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

export type Handler = Omit<RouteOptions, 'method' | 'url' | 'config'> & {
  /** Null: the route needs no token. */
  access: RouteAccess | null;
  /** Whether errors are shown as a page. */
  isPage?: true;
};
export type Handlers = Partial<Record<Method, Handler>>;

/** Registers the handlers of a path. The server answers every other method with 405. */
export function addResource(app: FastifyInstance, url: string, handlers: Handlers): void {
  for (const [method, { access, isPage = false, ...options }] of Object.entries(handlers))
    app.route({ ...options, config: { access, isPage }, method: method as Method, url });
}
