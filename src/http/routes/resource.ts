import type { FastifyInstance, RouteOptions } from 'fastify';
import { BursarError } from '../../domain/errors.ts';
import type { RouteAccess } from '../request/authorization.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE' | 'OPTIONS';

export type Handler = Omit<RouteOptions, 'method' | 'url' | 'config'> & {
  /** Null: the route needs no token. */
  access: RouteAccess | null;
  /** Whether errors are shown as a page. */
  isPage?: true;
};
export type Handlers = Partial<Record<Method, Handler>>;

const methods: Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Registers the handlers of a path. Every other method gets 405 with an Allow header, before the body is read. */
export function addResource(app: FastifyInstance, url: string, handlers: Handlers): void {
  const supported = methods.filter((method) => handlers[method] !== undefined);
  const allow = supported.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ');
  for (const method of supported) {
    const handler = handlers[method];
    if (handler === undefined) continue;
    const { access, isPage = false, ...options } = handler;
    app.route({ ...options, config: { access, isPage }, method, url });
  }
  app.route({
    method: methods.filter((method) => !supported.includes(method)),
    url,
    schema: { hide: true },
    config: { access: null },
    onRequest: async (request, reply) => {
      reply.header('allow', allow);
      throw new BursarError('method_not_allowed', `${request.method} is not supported on this path. Use ${allow}.`);
    },
    handler: () => undefined,
  });
}
