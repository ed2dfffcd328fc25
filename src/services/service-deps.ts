import type { OidcConfig } from '../config/oidc-schema.ts';
import type { SystemFields } from '../contract/system.ts';
import type { Slots } from '../domain/slots.ts';
import type { StorageProblem } from '../domain/systems/health.ts';
import type { Isolation } from '../domain/systems/isolation.ts';
import type { Spool } from '../files/spool/spool.ts';
import type { Workspaces } from '../files/workspaces/workspaces.ts';
import type { CheckInput } from '../files/zip/check-input.ts';
import type { LedgerVerification } from '../store/ledger/verify-ledger.ts';
import type { EndpointRules, ResolveEndpoint } from '../webhooks/endpoint.ts';
import type { SecretKey } from '../webhooks/secrets.ts';
import type { EventFeed, Topic } from './events/event-feed.ts';
import type { AbandonedClaims } from './idempotency.ts';
import type { OidcClients } from './identity/oidc/clients.ts';
import type { OidcVerifier } from './identity/oidc/verifier.ts';
import type { LogFeeds } from './jobs/log-feed.ts';
import type { CommonDeps } from './scope.ts';

/** What the use cases need, in one object. Each use case is a function that takes its part of it first. */
export interface ServiceDeps extends CommonDeps {
  /** Published when there is something new for a user. */
  userTopic: Pick<Topic, 'publish'>;
  /** Published when the rights of a user may have become fewer. */
  accessTopic: Pick<Topic, 'publish'>;
  /** Called when a job or a cancellation may have been stored, so that the dispatcher and the canceller poll at once. */
  wakeDispatcher(hpc: string): void;
  /** The first project that the configuration lists for a system. */
  defaultProject(hpc: string): string;
  maxUnfinishedJobs(hpc: string, project: string): UnfinishedJobs;
  isolationOf(hpc: string): Isolation['kind'];
  storageProblem(): StorageProblem | null;
  inputLimits: SystemFields['inputLimits'];
  maxBodyBytes: number;
  checkInput: CheckInput;
  spool: Spool;
  abandonedClaims: AbandonedClaims;
  workspacesByHpc: ReadonlyMap<string, Workspaces>;
  /** Removes the workspace of a job in the background. */
  removeFiles(hpc: string, jobId: string): void;
  logFeeds: LogFeeds;
  /** One for each user: searches may read much, and many of one user at once would delay the requests of everybody. */
  searches: Pick<Slots, 'run'>;
  /** A few for each user and system. Finding the links of a file that has several may read the whole workspace. */
  fileOpenings: Pick<Slots, 'run'>;
  eventFeed: EventFeed;
  endpointRules: EndpointRules;
  resolveEndpoint: ResolveEndpoint;
  secretKey: SecretKey;
  /** Of one user. */
  maxWebhooks: number;
  providers: readonly OidcConfig[];
  oidcClients: OidcClients;
  oidc: OidcVerifier;
  /** Life of new tokens. */
  tokens: { defaultDays: number; maxDays: number };
  /** A session that was not used for `idleMs` has ended. `maxMs` is its longest life, however often it is used. */
  sessions: { idleMs: number; maxMs: number };
  /** The packages of the clients. Null if the server runs from its sources, and has none. */
  clientsFolder: string | null;
  verifyLedger(): Promise<LedgerVerification>;
}

/** Numbers of unfinished jobs: of one user in all projects, and of one project for all users. */
export interface UnfinishedJobs {
  user: number;
  project: number;
}
