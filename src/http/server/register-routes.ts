import type { FastifyInstance } from 'fastify';
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
import type { OpenRequests } from '../limits/open-requests.ts';
import type { RateLimits } from '../limits/rate-limits.ts';
import { createAccessWatch } from '../request/access-watch.ts';
import { type Authenticate, credentialsOf, requireAuthentication } from '../request/authentication.ts';
import { requireAccess } from '../request/authorization.ts';
import { createBrowser } from '../request/browser.ts';
import { acceptForms } from '../request/form-body.ts';
import { ownerScopes } from '../request/owner-scope.ts';
import { accountRoutes, adminTokenRoutes } from '../routes/account.ts';
import { accountingRoutes } from '../routes/accounting.ts';
import { administrationRoutes } from '../routes/administration.ts';
import { auditRoutes } from '../routes/audit.ts';
import { clientRoutes } from '../routes/clients.ts';
import { deviceRoutes } from '../routes/device.ts';
import { eventRoutes } from '../routes/events.ts';
import { fileRoutes } from '../routes/files.ts';
import { jobSummaryRoutes } from '../routes/job-summaries.ts';
import { adminCancelRoutes, jobRoutes } from '../routes/jobs.ts';
import { logRoutes } from '../routes/logs.ts';
import { oauthRoutes } from '../routes/oauth.ts';
import { openIdSignInRoutes } from '../routes/openid-sign-in.ts';
import { quotaRoutes } from '../routes/quotas.ts';
import { adminSessionRoutes, sessionRoutes } from '../routes/sessions.ts';
import { signInRoutes } from '../routes/sign-in.ts';
import { adminSystemRoutes, systemRoutes } from '../routes/systems.ts';
import { userRoutes } from '../routes/users.ts';
import { webAppRoutes } from '../routes/web-app.ts';
import { adminWebhookRoutes, webhookRoutes } from '../routes/webhooks.ts';

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

export interface RouteDeps {
  services: Services;
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

/**
 * Five contexts: routes that read raw bodies, administrators' routes, routes with JSON bodies, routes to sign in, and
 * downloads and the web page, which need no token.
 */
export async function registerRoutes(app: FastifyInstance, deps: RouteDeps, limits: RateLimits): Promise<void> {
  const { heartbeatMs, openRequests } = deps;
  const browser = createBrowser(deps.publicUrl, deps.hasTls);
  const authenticate: Authenticate = (request) => deps.authenticate(credentialsOf(request, browser));
  const { access, account, users, sessions, audit, jobs, files, accounting, admin, systems, events, webhooks } =
    deps.services;
  const { accessTopic } = deps;
  const recheck: Authenticate = (request) =>
    deps.authenticate({ ...credentialsOf(request, browser), isRepeated: true });
  const accessWatch = createAccessWatch({
    authenticate: recheck,
    access,
    accessTopic,
    intervalMs: heartbeatMs,
    now: Date.now,
  });
  const registerProtected = (register: (instance: FastifyInstance) => void) =>
    app.register(async (instance) => {
      requireAuthentication(instance, authenticate, limits, browser);
      requireAccess(instance, access);
      register(instance);
    });
  await registerProtected((instance) => {
    instance.removeAllContentTypeParsers();
    instance.addContentTypeParser('*', (_request, _payload, done) => done(null));
    jobRoutes(instance, jobs, access, openRequests);
    jobSummaryRoutes(instance, jobs, access);
    quotaRoutes(instance, accounting, access);
    accountingRoutes(instance, accounting, access);
    systemRoutes(instance, systems);
    fileRoutes(instance, files, access, openRequests);
    logRoutes(instance, files, access, { accessWatch, openRequests });
    eventRoutes(instance, events, access, { heartbeatMs, accessWatch, openRequests });
  });
  await registerProtected((instance) => {
    administrationRoutes(instance, admin);
    auditRoutes(instance, audit);
    adminCancelRoutes(instance, jobs, access);
    adminSystemRoutes(instance, systems);
    userRoutes(instance, users);
    adminTokenRoutes(instance, account, ownerScopes('users', access).ofUser);
    adminSessionRoutes(instance, sessions, ownerScopes('users', access).ofUser);
    adminWebhookRoutes(instance, webhooks, access);
  });
  await registerProtected((instance) => {
    webhookRoutes(instance, webhooks);
    accountRoutes(instance, account);
    sessionRoutes(instance, sessions);
  });
  await app.register(async (instance) => {
    instance.addHook('onRequest', async (request, reply) => {
      limits.anonymous(request, reply);
      // Pages and responses have codes and secrets.
      reply.header('cache-control', 'no-store');
    });
    acceptForms(instance);
    const { signInLinks: links, deviceFlow, openIdSignIn: openId } = deps.services;
    signInRoutes(instance, { links, sessions, openId, browser, authenticate, limits });
    openIdSignInRoutes(instance, { openId, browser, limits });
    deviceRoutes(instance, { deviceFlow, browser, authenticate, limits });
    oauthRoutes(instance, { deviceFlow, browser, limits });
  });
  await app.register(async (instance) => {
    instance.addHook('onRequest', async (request, reply) => limits.anonymous(request, reply));
    clientRoutes(instance, deps.services.clients, browser);
    webAppRoutes(instance, deps.webFolder);
  });
}
