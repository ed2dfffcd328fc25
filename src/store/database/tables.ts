import type { Generated, Insertable, Selectable } from 'kysely';
import type { AccountBalance, Movement } from '../../domain/accounting/charge.ts';
import type { EventKind } from '../../domain/event.ts';
import type { JoinedBy } from '../../domain/identity/group-membership.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import type { JobState, Outcome } from '../../domain/jobs/job.ts';
import type { SystemStatus } from '../../domain/systems/health.ts';
import type { Delivery, Webhook } from '../../domain/webhook.ts';

/** On both databases times are epoch milliseconds, booleans 0 or 1, and amounts integers (seconds, bytes). */
export interface Tables {
  users: {
    id: string;
    role: SiteRole;
    /** From the OpenID provider. */
    name: string | null;
    mail: string | null;
    /** A disabled user cannot sign in, and their tokens are refused. */
    disabledAt: number | null;
    createdAt: number;
    /** Incremented by every change of the public JSON of the user's jobs. */
    jobsVersion: Generated<number>;
    /** The `seq` of the user's last event. */
    eventSeq: Generated<number>;
    /** The `seq` of the last event that has expired. */
    eventsExpired: Generated<number>;
    /** The number of webhooks. Users with none are skipped when deliveries are queued. */
    webhooks: Generated<number>;
    /** The number of jobs that have not ended. */
    unfinishedJobs: Generated<number>;
  };
  /** The users of OpenID providers. A user can have several identities. */
  identities: {
    issuer: string;
    subject: string;
    userId: string;
    /** By the groups at the issuer; null if they do not decide about roles. */
    role: SiteRole | null;
    /** Of the memberships by the groups at the issuer; empty if they have to be applied. */
    groupsHash: Generated<string>;
    /** When the token was issued whose claims were applied last. Claims of older tokens are not applied. */
    claimsAt: Generated<number>;
    createdAt: number;
  };
  tokens: {
    id: Generated<number>;
    userId: string;
    /** Only the hash is stored, so that a reader of the database cannot use the token. */
    hash: string;
    name: string;
    /** Separated by spaces. */
    scopes: string;
    /** Null: the token is for all systems, or all projects of the system. */
    hpc: string | null;
    projectName: string | null;
    /** The last day (`YYYY-MM-DD`, UTC) on which it was used, and the address from which it was used. */
    lastUsedOn: string | null;
    lastUsedFrom: string | null;
    createdAt: number;
    expiresAt: number | null;
    revokedAt: number | null;
    /** When the owner was notified of the coming end. */
    announcedAt: number | null;
  };
  /** Sessions of browsers. */
  sessions: {
    id: Generated<number>;
    userId: string;
    hash: string;
    createdAt: number;
    /** Written at most once a minute. */
    lastUsedAt: number;
    /** The absolute end. A session that is not used ends earlier. */
    expiresAt: number;
    /** Of the browser, at the sign-in. */
    address: string;
    userAgent: string;
    /** The OpenID provider where the user signed in, and its ID token, which the sign-out there needs. */
    issuer: string | null;
    idToken: string | null;
    revokedAt: number | null;
  };
  /** The one-time codes of sign-in links. */
  signInCodes: {
    hash: string;
    userId: string;
    createdAt: number;
    expiresAt: number;
  };
  /** Browsers that were sent to an OpenID provider and have not come back. */
  signInAttempts: {
    /** Of the secret in the browser's cookie. */
    hash: string;
    issuer: string;
    state: string;
    nonce: string;
    codeVerifier: string;
    returnTo: string;
    expiresAt: number;
  };
  /** Programs that wait for a token until a user confirms their code (RFC 8628). */
  deviceRequests: {
    id: Generated<number>;
    deviceHash: string;
    userCodeHash: string;
    clientName: string;
    /** Separated by spaces. */
    scopes: string;
    /** Of the program that asks. */
    address: string;
    createdAt: number;
    expiresAt: number;
    /** How often the program may poll. */
    intervalSeconds: number;
    lastPolledAt: number;
    state: 'pending' | 'approved' | 'denied';
    /** The user who decided. */
    userId: string | null;
  };
  projects: {
    id: Generated<number>;
    hpc: string;
    name: string;
    autoJoin: number;
    /** The grant of each new member. */
    grantTimeSeconds: number;
    grantSpaceBytes: number;
    createdAt: number;
    closedAt: number | null;
  };
  periods: {
    id: Generated<number>;
    projectId: number;
    startsAt: number;
    endsAt: number | null;
    /** When the members were notified of the coming end. */
    announcedAt: number | null;
  };
  memberships: {
    id: Generated<number>;
    userId: string;
    projectId: number;
    status: 'active' | 'removed' | 'banned';
    role: Generated<'member' | 'manager'>;
    joinedBy: Generated<JoinedBy>;
    reason: string;
    since: number;
  };
  accounts: AccountBalance & {
    id: Generated<number>;
    projectId: number;
    /** 0 for a space account: files stay when a period ends, so used space belongs to no period. */
    periodId: number;
    /** '' for the pool of the project; a user id for a cap, which limits the user's part of the pool. */
    holder: string;
    resource: Resource;
    /** The highest threshold of use, in percent, that members were notified of: 0, 80 or 100. */
    alerted: number;
    /** Incremented by every change of the balance. */
    version: Generated<number>;
    /**
     * The number of holds that are not resolved. A job has one hold, on the four accounts of its owner and project, so this
     * is the number of unfinished jobs: of the project on its space pool, of the user in the project on the cap.
     */
    openHolds: Generated<number>;
  };
  holds: {
    id: Generated<number>;
    /** A job has one hold. */
    job: number;
    timePool: number;
    timeCap: number;
    spacePool: number;
    spaceCap: number;
    timeSeconds: number;
    spaceBytes: number;
    createdAt: number;
  };
  resolutions: {
    holdId: number;
    kind: 'settled' | 'voided';
    timeSeconds: number;
    spaceBytes: number;
    rule: string;
    at: number;
  };
  entries: Movement & {
    id: Generated<number>;
    accountId: number;
    kind: EntryKind;
    availableAfter: number;
    job: number | null;
    actor: string;
    reason: string;
    at: number;
  };
  /** The sums of the entries about used time, by user, project and month. */
  monthlyUsage: {
    /** `YYYY-MM`, UTC. */
    month: string;
    projectId: number;
    userId: string;
    /** The number of jobs that ended. */
    jobs: number;
    /** The used time, less refunds. */
    timeSeconds: number;
  };
  audit: {
    id: Generated<number>;
    actor: string;
    address: string | null;
    tokenId: number | null;
    sessionId: number | null;
    requestId: string | null;
    action: string;
    subject: string;
    details: string;
    at: number;
    /** Covers the record and the hash of the record before it. */
    hash: string;
  };
  idempotency: {
    userId: string;
    key: string;
    requestHash: string;
    /** Empty while the request is in progress. */
    response: string;
    at: number;
    /** A random id of the request in progress; null once the response is stored. */
    claimedBy: string | null;
    claimedUntil: Generated<number>;
    /** The hash of the uploaded file; null for a request without one. */
    bodySha256: string | null;
  };
  jobs: {
    id: Generated<number>;
    jobId: string;
    owner: string;
    projectId: number;
    hpc: string;
    projectName: string;
    request: string;
    /** Seconds charged for each second of runtime. */
    units: number;
    inputSha256: string | null;
    inputBytes: number;
    unpackedBytes: number;
    state: JobState;
    outcome: Outcome | null;
    reason: string | null;
    exitCode: number | null;
    startedAt: number | null;
    endedAt: number | null;
    elapsedSeconds: number | null;
    /** The engine's id of the job; null before its submission is recorded. */
    engineRef: string | null;
    acceptedAt: number;
    /** When the dispatcher should try to submit the job next. */
    dueAt: number;
    /** How often the dispatcher has tried to submit the job, not counting tries that did not reach the engine. */
    tries: number;
    /** Since when a dispatcher has been submitting the job; null between two tries. */
    claimedAt: number | null;
    /** The span of the submission, as a W3C `traceparent`; null without tracing. */
    traceParent: string | null;
    /** Since when the owner knows that the job cannot be submitted, and why it cannot; null for other jobs. */
    delayedAt: number | null;
    delayReason: string | null;
    /** When the cancellation was first requested. */
    cancelRequestedAt: number | null;
    /** The owner or the administrator who requested it, or the limit that the job exceeds. */
    cancelRequestedBy: string | null;
    publicJson: string;
    /** Copied from the public JSON, for filters. */
    title: string;
    stage: string;
    failed: number;
    terminal: number;
    /** When the files will be deleted; null until the owner has been notified of that time. */
    expiresAt: number | null;
  };
  inputs: { job: number; content: Buffer };
  jobTags: { tag: string; job: number; owner: string };
  systems: {
    hpc: string;
    status: SystemStatus;
    since: number;
    detail: string;
    pausedAt: number | null;
    pauseReason: string | null;
  };
  /** Values of the whole installation: the id of the data folder, the hash of the last record of the audit trail. */
  settings: { name: string; value: string };
  leases: {
    name: string;
    /** Host and process, for people who read the table. */
    holder: string;
    /** The fencing token: incremented each time that the lease is acquired. */
    term: number;
    expiresAt: number;
  };
  events: {
    id: Generated<number>;
    userId: string;
    job: number | null;
    kind: EventKind;
    data: string;
    at: number;
    /** Numbers the events of a user, without gaps, in commit order. */
    seq: number;
    /** The public JSON of the job at that time. */
    jobJson: string | null;
    /** 1 for an expired event, which only the timeline of its job still shows. */
    expired: number;
  };
  webhooks: Omit<Webhook, 'id' | 'kinds'> & {
    id: Generated<number>;
    /** The secret is derived from it. Each rotation increments it. */
    generation: number;
    /** Until then the secret of the generation before signs requests too. */
    formerUntil: number;
    /** Of the key from which the secrets are derived. */
    keyId: string;
    /** The number of consecutive failed attempts. */
    failures: number;
    /** Nothing is sent before this time, after several consecutive failures. */
    pauseUntil: number;
  };
  /** The kinds of events that a webhook receives; `*` for all. */
  subscriptions: { webhookId: number; kind: string };
  deliveries: Omit<Delivery, 'id' | 'event'> & {
    id: Generated<number>;
    webhookId: number;
    /** Null for a test delivery. */
    eventId: number | null;
    leaseOwner: string | null;
    leaseUntil: number;
  };
}

/** A row as a query returns it. */
export type Row<Table extends keyof Tables> = Selectable<Tables[Table]>;

/** A row to insert. Columns that can be null, or have a default, may be missing. */
export type NewRow<Table extends keyof Tables> = Insertable<Tables[Table]>;

export type Resource = 'time' | 'space';

export type EntryKind =
  | 'grant'
  | 'top_up'
  | 'withdraw'
  | 'expire'
  | 'reserve'
  | 'release'
  | 'charge'
  | 'free'
  | 'refund'
  | 'transfer'
  | 'adjust';
