import type { FastifyInstance } from 'fastify';
import { stageSchema } from '../../contract/fields.ts';
import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AdminService } from '../../services/accounting/admin-service.ts';
import type { ClientPackages } from '../../services/client-packages.ts';
import type { EventService } from '../../services/events/event-service.ts';
import type { Topic } from '../../services/events/topic.ts';
import type { WebhookService } from '../../services/events/webhooks.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { AccountService } from '../../services/identity/account.ts';
import type { Caller } from '../../services/identity/actor.ts';
import type { AuditTrail } from '../../services/identity/audit-trail.ts';
import type { Credentials } from '../../services/identity/authenticate.ts';
import type { DeviceFlow } from '../../services/identity/device-flow.ts';
import type { OpenIdSignIn } from '../../services/identity/openid-sign-in.ts';
import type { SessionService } from '../../services/identity/sessions.ts';
import type { SignInLinkService } from '../../services/identity/sign-in-links.ts';
import type { UserService } from '../../services/identity/user-service.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import type { SystemService } from '../../services/systems/system-service.ts';
import { addRoutes } from '../add-routes.ts';
import type { OpenRequests } from '../limits/open-requests.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { docsPages } from '../openapi/docs-page.ts';
import { openApiDocument } from '../openapi/document.ts';
import type { ExampleSystem } from '../openapi/parameters.ts';
import { isOperation, page, type Route } from '../operation.ts';
import { closingSignal } from '../request/abort-signals.ts';
import { createAccessWatch } from '../request/access-watch.ts';
import { type Authenticate, credentialsOf, requireCaller } from '../request/authentication.ts';
import { authorize } from '../request/authorization.ts';
import { type Browser, createBrowser } from '../request/browser.ts';
import { sendJson } from '../response/send.ts';
import { accountOperations } from './account.ts';
import { accountingOperations } from './accounting.ts';
import { administrationOperations } from './administration.ts';
import { auditOperations } from './audit.ts';
import { clientOperations } from './clients.ts';
import { deviceRoutes } from './device.ts';
import { eventOperations } from './events.ts';
import { fileOperations } from './files.ts';
import { jobSummaryOperations } from './job-summaries.ts';
import { jobOperations } from './jobs.ts';
import { logOperations } from './logs.ts';
import { type ProbeOperationDeps, probeOperations } from './probes.ts';
import { quotaOperations } from './quotas.ts';
import { signInRoutes } from './sign-in.ts';
import { systemOperations } from './systems.ts';
import { userOperations } from './users.ts';
import { webAppRoutes } from './web-app.ts';
import { webhookOperations } from './webhooks.ts';

export interface Services {
  access: AccessService;
  account: AccountService;
  users: UserService;
  audit: AuditTrail;
  sessions: SessionService;
  signInLinks: SignInLinkService;
  deviceFlow: DeviceFlow;
  openIdSignIn: OpenIdSignIn;
  jobs: JobService;
  files: FileService;
  accounting: AccountingService;
  admin: AdminService;
  systems: SystemService;
  events: EventService;
  webhooks: WebhookService;
  clients: ClientPackages;
}

export interface RouteDeps extends Omit<ProbeOperationDeps, 'limits'> {
  services: Services;
  /** False for a server that has only probes and metrics. */
  servesCallers: boolean;
  version: string;
  /** For the OpenAPI document. */
  systems: readonly ExampleSystem[];
  authenticate(credentials: Credentials): Promise<Caller>;
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
  openRequests: OpenRequests;
}

/** Registers everything that the server has: the operations of the API, their OpenAPI document, and pages. */
export async function registerRoutes(app: FastifyInstance, deps: RouteDeps, limits: RateLimits): Promise<void> {
  const { services, systems, version } = deps;
  const { access } = services;
  const browser = createBrowser(deps.publicUrl, deps.hasTls);
  const authenticate: Authenticate = (request) => deps.authenticate(credentialsOf(request, browser));
  const probes = probeOperations({ ...deps, limits });
  const routes = deps.servesCallers
    ? [...probes, ...callerRoutes(app, deps, limits, { browser, authenticate })]
    : probes;
  // Generated when it is first requested.
  let document: string | undefined;
  const documentRoute = page({
    route: 'GET /openapi.json',
    errors: 'problem',
    handler: (_request, reply) => {
      document ??= JSON.stringify(openApiDocument(routes.filter(isOperation), version, systems));
      return sendJson(reply, 200, document);
    },
  });
  await addRoutes(app, deps.servesCallers ? [...routes, documentRoute] : routes, {
    references: [stageSchema(systems.map(({ system }) => system))],
    admit: async (request, reply, routeAccess) => {
      if (routeAccess === 'public') return limits.anonymous(request, reply);
      if (routeAccess === 'probe') return limits.anonymous(request, reply, 'probe');
      await requireCaller(request, reply, { authenticate, limits, browser });
      request.isManager = await authorize(request, routeAccess, access);
    },
  });
}

function callerRoutes(
  app: FastifyInstance,
  deps: RouteDeps,
  limits: RateLimits,
  { browser, authenticate }: { browser: Browser; authenticate: Authenticate },
): Route[] {
  const { services, heartbeatMs, accessTopic, openRequests } = deps;
  const { access, jobs, files, sessions, deviceFlow, openIdSignIn: openId } = services;
  const accessWatch = createAccessWatch({
    authenticate: (request) => deps.authenticate({ ...credentialsOf(request, browser), isRepeated: true }),
    access,
    accessTopic,
    intervalMs: heartbeatMs,
    now: Date.now,
  });
  const closing = closingSignal(app);
  return [
    ...jobOperations({ jobs, access, openRequests }),
    ...jobSummaryOperations(jobs, access),
    ...logOperations({ files, accessWatch, openRequests, closing }),
    ...fileOperations({ files, access, openRequests }),
    ...quotaOperations(services.accounting, access),
    ...accountingOperations(services.accounting, access),
    ...systemOperations(services.systems),
    ...eventOperations({ events: services.events, access, heartbeatMs, accessWatch, openRequests, closing }),
    ...webhookOperations(services.webhooks, access),
    ...accountOperations({ account: services.account, sessions, access }),
    ...userOperations(services.users),
    ...administrationOperations(services.admin),
    ...auditOperations(services.audit),
    ...signInRoutes({ links: services.signInLinks, sessions, openId, browser, authenticate, limits }),
    ...deviceRoutes({ deviceFlow, browser, authenticate, limits }),
    ...clientOperations(services.clients, browser),
    ...webAppRoutes(deps.webFolder),
    ...docsPages(),
  ];
}
