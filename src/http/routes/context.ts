import type { AccountingService } from '../../services/accounting/accounting-service.ts';
import type { AdminService } from '../../services/accounting/admin-service.ts';
import type { ClientPackages } from '../../services/client-packages.ts';
import type { EventService } from '../../services/events/event-service.ts';
import type { WebhookService } from '../../services/events/webhooks.ts';
import type { AccessService } from '../../services/identity/access.ts';
import type { AccountService } from '../../services/identity/account.ts';
import type { AuditTrail } from '../../services/identity/audit-trail.ts';
import type { DeviceFlow } from '../../services/identity/device-flow.ts';
import type { OpenIdSignIn } from '../../services/identity/openid-sign-in.ts';
import type { SessionService } from '../../services/identity/sessions.ts';
import type { SignInLinkService } from '../../services/identity/sign-in-links.ts';
import type { UserService } from '../../services/identity/user-service.ts';
import type { FileService } from '../../services/jobs/file-service.ts';
import type { JobService } from '../../services/jobs/job-service.ts';
import type { SystemService } from '../../services/systems/system-service.ts';
import type { OpenRequests } from '../limits/concurrency.ts';
import type { AuthenticationDeps } from '../request/access.ts';
import type { AccessWatch } from '../request/open-response.ts';

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

/** Everything that handlers of routes use. Each takes its part. */
export interface RouteContext extends Services, AuthenticationDeps {
  openRequests: OpenRequests;
  accessWatch: AccessWatch;
  /** Between two heartbeats of an event stream. */
  heartbeatMs: number;
  /** Aborted when the server starts to close. */
  closing: AbortSignal;
}
