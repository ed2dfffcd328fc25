import type { FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';
import { stageSchema } from '../../contract/fields.ts';
import type { Topic } from '../../services/events/event-feed.ts';
import { authenticate as findCaller } from '../../services/identity/authenticate.ts';
import type { ServiceDeps } from '../../services/service-deps.ts';
import type { CountOpenRequest } from '../limits/concurrency.ts';
import { docsPages } from '../openapi/docs-page.ts';
import { openApiDocument } from '../openapi/document.ts';
import type { ExampleSystem } from '../openapi/parameters.ts';
import { type Access, isOperation, page, type Route } from '../operation.ts';
import {
  type Authenticate,
  type AuthenticationDeps,
  authorize,
  credentialsOf,
  requireCaller,
} from '../request/access.ts';
import { createBrowser } from '../request/browser.ts';
import { closingSignal, createAccessWatch } from '../request/open-response.ts';
import { readPathParams } from '../request/path-params.ts';
import { createRequestChecks, type RequestCheck } from '../request/validation.ts';
import { sendResult } from '../response/send.ts';
import { accountOperations } from './account.ts';
import { administrationOperations } from './administration.ts';
import { clientOperations } from './clients.ts';
import type { RouteContext } from './context.ts';
import { deviceRoutes } from './device.ts';
import { eventOperations } from './events.ts';
import { fileOperations } from './files.ts';
import { jobOperations } from './jobs.ts';
import { logOperations } from './logs.ts';
import { type ProbeDeps, probeOperations } from './probes.ts';
import { quotaOperations } from './quotas.ts';
import { signInRoutes } from './sign-in.ts';
import { systemOperations } from './systems.ts';
import { webAppRoutes } from './web-app.ts';
import { webhookOperations } from './webhooks.ts';

export interface RouteDeps extends ProbeDeps {
  services: ServiceDeps;
  /** False for a server that has only probes and metrics. */
  servesCallers: boolean;
  version: string;
  /** For the OpenAPI document. */
  systems: readonly ExampleSystem[];
  /** Published when the rights of a user may have become fewer. */
  accessTopic: Pick<Topic, 'subscribe'>;
  /** The address at which browsers reach the server, if it is configured. */
  publicUrl: string | undefined;
  /** Whether Bursar itself has a certificate. */
  hasTls: boolean;
  /** The built web page; null if the server runs from its sources. */
  webFolder: string | null;
  /** Between two heartbeats of an event stream. */
  heartbeatMs: number;
  countOpenRequest: CountOpenRequest;
}

type Admit = (request: FastifyRequest, reply: FastifyReply, access: Access) => Promise<void> | void;

/** Registers everything that the server has: the operations of the API, their OpenAPI document, and pages. */
export async function registerRoutes(app: FastifyInstance, deps: RouteDeps): Promise<void> {
  const { services, systems, version, rates, servesCallers } = deps;
  const browser = createBrowser(deps.publicUrl, deps.hasTls);
  const authenticate: Authenticate = (request) => findCaller(services, credentialsOf(request, browser));
  const authentication = { authenticate, rates, browser };
  const probes = probeOperations(deps);
  const routes = servesCallers ? [...probes, ...callerRoutes(app, deps, authentication)] : probes;
  // Generated when it is first requested.
  let document: string | undefined;
  const documentRoute = page({
    route: 'GET /openapi.json',
    errors: 'problem',
    handler: () => (document ??= JSON.stringify(openApiDocument(routes.filter(isOperation), version, systems))),
  });
  const admit: Admit = async (request, reply, access) => {
    if (access === 'public') return rates.anonymous(request, reply);
    if (access === 'probe') return rates.anonymous(request, reply, 'probe');
    await requireCaller(request, reply, authentication);
    request.isManager = await authorize(request, access, services);
  };
  const toCheck = createRequestChecks([stageSchema(systems.map(({ system }) => system))]);
  // Parsers of bodies belong to a context.
  for (const kind of ['none', 'json', 'form'] as const) {
    await app.register(async (context) => {
      addBodyParser(context, kind);
      for (const route of servesCallers ? [...routes, documentRoute] : routes)
        if (bodyKind(route) === kind) addRoute(context, route, toCheck(route), admit);
    });
  }
}

function callerRoutes(app: FastifyInstance, deps: RouteDeps, authentication: AuthenticationDeps): Route[] {
  const { services, heartbeatMs, accessTopic, countOpenRequest } = deps;
  const watchAccess = createAccessWatch({
    authenticate: (request) =>
      findCaller(services, { ...credentialsOf(request, authentication.browser), isRepeated: true }),
    db: services.db,
    accessTopic,
    intervalMs: heartbeatMs,
  });
  const closing = closingSignal(app);
  const context: RouteContext = { ...services, ...authentication, countOpenRequest, watchAccess, heartbeatMs, closing };
  return [
    ...jobOperations(context),
    ...logOperations(context),
    ...fileOperations(context),
    ...quotaOperations(context),
    ...systemOperations(context),
    ...eventOperations(context),
    ...webhookOperations(context),
    ...accountOperations(context),
    ...administrationOperations(context),
    ...signInRoutes(context),
    ...deviceRoutes(context),
    ...clientOperations(context),
    ...webAppRoutes(deps.webFolder),
    ...docsPages(),
  ];
}

/** Registers a route as it is declared. The server answers every other method of its path with 405. */
function addRoute(app: FastifyInstance, route: Route, check: RequestCheck, admit: Admit): void {
  const [method = '', path = ''] = route.route.split(' ');
  const statuses = isOperation(route) ? Object.keys(route.responses) : ['200'];
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
    // The body is a stream of bytes whatever its type, even a malformed one. `rawHeaders` still have the type.
    ...(route.zip && { preParsing: async ({ headers }) => void delete headers['content-type'] }),
    handler: async (request, reply) => {
      check(request);
      reply.code(Number(statuses[0]));
      const result = await route.handler(request as Parameters<Route['handler']>[0], reply);
      return await sendResult(request, reply, result, statuses.includes('304'));
    },
  });
}

const bodyKind = ({ body, form }: Route) => (form ? 'form' : body ? 'json' : 'none');

function addBodyParser(app: FastifyInstance, kind: ReturnType<typeof bodyKind>): void {
  if (kind === 'json') return;
  app.removeAllContentTypeParsers();
  if (kind === 'none') app.addContentTypeParser('*', (_request, _payload, done) => done(null));
  // A field that is sent twice has its last value.
  else
    app.addContentTypeParser('application/x-www-form-urlencoded', { parseAs: 'string' }, (_request, body, done) =>
      done(null, Object.fromEntries(new URLSearchParams(String(body)))),
    );
}

declare module 'fastify' {
  interface FastifyContextConfig {
    route?: Route;
  }
}
