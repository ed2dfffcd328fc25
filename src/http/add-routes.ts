import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import type { TSchema } from 'typebox';
import { isOperation, type Route } from './operation.ts';
import { readPathParams } from './request/path-params.ts';
import { createRequestChecks, type RequestCheck } from './request/validation.ts';

export interface AddRoutesOptions {
  /** Authenticates and authorizes a request, and counts it. */
  admit(request: FastifyRequest, reply: FastifyReply, access: Route['access']): Promise<void> | void;
  /** The schemas to which those of requests refer. */
  references: readonly TSchema[];
}

/** Registers routes as they are declared. The server answers every other method of their paths with 405. */
export async function addRoutes(
  app: FastifyInstance,
  routes: readonly Route[],
  { admit, references }: AddRoutesOptions,
): Promise<void> {
  const toCheck = createRequestChecks(references);
  // Parsers of bodies belong to a context.
  for (const kind of ['none', 'json', 'form'] as const) {
    await app.register(async (context) => {
      if (kind !== 'json') context.removeAllContentTypeParsers();
      if (kind === 'none') ignoreBodies(context);
      if (kind === 'form') parseForms(context);
      for (const route of routes) if (bodyKind(route) === kind) addRoute(context, route, toCheck(route), admit);
    });
  }
}

function addRoute(app: FastifyInstance, route: Route, check: RequestCheck, admit: AddRoutesOptions['admit']): void {
  const [method = '', path = ''] = route.route.split(' ');
  const status = isOperation(route) ? Number(Object.keys(route.responses)[0]) : 200;
  app.route({
    method: method as HTTPMethods,
    url: path.replace(/\{path\}$/, '*').replace(/\{(\w+)\}/g, ':$1'),
    config: { route },
    onRequest: async (request, reply) => {
      readPathParams(request);
      await admit(request, reply, route.access);
      route.onRequest?.(request, reply);
      if (route.noStore) reply.header('cache-control', 'no-store');
    },
    ...(route.zip && { preParsing: async (request) => hideContentType(request) }),
    handler: (request, reply) => {
      check(request);
      if (status !== 200) reply.code(status);
      return route.handler(request as Parameters<Route['handler']>[0], reply);
    },
  });
}

function bodyKind({ body, form }: Route): 'none' | 'json' | 'form' {
  if (form !== undefined) return 'form';
  return body === undefined ? 'none' : 'json';
}

function ignoreBodies(app: FastifyInstance): void {
  app.addContentTypeParser('*', (_request, _payload, done) => done(null));
}

/** A field that is sent twice has its last value. */
function parseForms(app: FastifyInstance): void {
  app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) =>
    done(null, Object.fromEntries(new URLSearchParams(String(body)))),
  );
}

/** The body is a stream of bytes whatever its type, even a malformed one. `rawHeaders` still have the type. */
function hideContentType({ headers }: FastifyRequest): void {
  delete headers['content-type'];
}

declare module 'fastify' {
  interface FastifyContextConfig {
    route?: Route;
  }
}
