import type { Generated } from 'kysely';
import type { EventKind } from '../../domain/event.ts';
import type { JoinedBy } from '../../domain/identity/group-membership.ts';
import type { SiteRole } from '../../domain/identity/policy.ts';
import type { JobState, Outcome } from '../../domain/jobs/job.ts';
import type { SystemStatus } from '../../domain/systems/health.ts';
import type { DeliveryResult, WebhookDisabler } from '../../domain/webhook.ts';

/** On both databases times are epoch milliseconds, booleans 0 or 1, and amounts integers (seconds, bytes). */
export interface Tables {
  users: {
    id: string;
    role: SiteRole;
    /** From the OpenID provider. */
    name: string | null;
    mail: string | null;
    /** A disabled user cannot sign in, and their tokens are refused. */
    disabled_at: number | null;
    created_at: number;
    /** Incremented by every change of the public JSON of the user's jobs. */
    jobs_version: Generated<number>;
    /** The `seq` of the user's last event. */
    event_seq: Generated<number>;
    /** The `seq` of the last event that has expired. */
    events_expired: Generated<number>;
    /** The number of webhooks. Users with none are skipped when deliveries are queued. */
    webhooks: Generated<number>;
    /** The number of jobs that have not ended. */
    unfinished_jobs: Generated<number>;
  };
  /** The users of OpenID providers. A user can have several identities. */
  identities: {
    issuer: string;
    subject: string;
    user_id: string;
    /** By the groups at the issuer; null if they do not decide about roles. */
    role: SiteRole | null;
    /** Of the memberships by the groups at the issuer; empty if they have to be applied. */
    groups_hash: Generated<string>;
    /** When the token was issued whose claims were applied last. Claims of older tokens are not applied. */
    claims_at: Generated<number>;
    created_at: number;
  };
  tokens: {
    id: Generated<number>;
    user_id: string;
    hash: string;
    name: string;
    /** Separated by spaces. */
    scopes: string;
    /** Null: the token is for all systems, or all projects of the system. */
    hpc: string | null;
    project_name: string | null;
    /** The last day (`YYYY-MM-DD`, UTC) on which it was used, and the address from which it was used. */
    last_used_on: string | null;
    last_used_from: string | null;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
    /** When the owner was notified of the coming end. */
    announced_at: number | null;
  };
  /** Sessions of browsers. */
  sessions: {
    id: Generated<number>;
    user_id: string;
    hash: string;
    created_at: number;
    /** Written at most once a minute. */
    last_used_at: number;
    /** The absolute end. A session that is not used ends earlier. */
    expires_at: number;
    /** Of the browser, at the sign-in. */
    address: string;
    user_agent: string;
    /** The OpenID provider where the user signed in, and its ID token, which the sign-out there needs. */
    issuer: string | null;
    id_token: string | null;
    revoked_at: number | null;
  };
  /** The one-time codes of sign-in links. */
  sign_in_codes: {
    hash: string;
    user_id: string;
    created_at: number;
    expires_at: number;
  };
  /** Browsers that were sent to an OpenID provider and have not come back. */
  sign_in_attempts: {
    /** Of the secret in the browser's cookie. */
    hash: string;
    issuer: string;
    state: string;
    nonce: string;
    code_verifier: string;
    return_to: string;
    expires_at: number;
  };
  /** Programs that wait for a token until a user confirms their code (RFC 8628). */
  device_requests: {
    id: Generated<number>;
    device_hash: string;
    user_code_hash: string;
    client_name: string;
    /** Separated by spaces. */
    scopes: string;
    /** Of the program that asks. */
    address: string;
    created_at: number;
    expires_at: number;
    /** How often the program may poll. */
    interval_seconds: number;
    last_polled_at: number;
    state: DeviceRequestState;
    /** The user who decided. */
    user_id: string | null;
  };
  projects: {
    id: Generated<number>;
    hpc: string;
    name: string;
    auto_join: number;
    /** The grant of each new member. */
    grant_time_seconds: number;
    grant_space_bytes: number;
    created_at: number;
    closed_at: number | null;
  };
  periods: {
    id: Generated<number>;
    project_id: number;
    starts_at: number;
    ends_at: number | null;
    /** When the members were notified of the coming end. */
    announced_at: number | null;
  };
  memberships: {
    id: Generated<number>;
    user_id: string;
    project_id: number;
    status: 'active' | 'removed' | 'banned';
    role: Generated<'member' | 'manager'>;
    joined_by: Generated<JoinedBy>;
    reason: string;
    since: number;
  };
  accounts: {
    id: Generated<number>;
    project_id: number;
    /** 0 for a space account: files stay when a period ends, so used space belongs to no period. */
    period_id: number;
    /** '' for the pool of the project; a user id for a cap, which limits the user's part of the pool. */
    holder: string;
    resource: Resource;
    granted: number;
    /** Reserved for unfinished jobs. */
    held: number;
    /** Used within the grant. */
    posted: number;
    /** Used beyond the grant. */
    overrun: number;
    /** The highest threshold of use, in percent, that members were notified of: 0, 80 or 100. */
    alerted: number;
    /** Incremented by every change of the balance. */
    version: Generated<number>;
    /**
     * The number of holds that are not resolved. A job has one hold, on the four accounts of its owner and project, so this
     * is the number of unfinished jobs: of the project on its space pool, of the user in the project on the cap.
     */
    open_holds: Generated<number>;
  };
  holds: {
    id: Generated<number>;
    /** A job has one hold. */
    job: number;
    time_pool: number;
    time_cap: number;
    space_pool: number;
    space_cap: number;
    time_seconds: number;
    space_bytes: number;
    created_at: number;
  };
  resolutions: {
    hold_id: number;
    kind: 'settled' | 'voided';
    time_seconds: number;
    space_bytes: number;
    rule: string;
    at: number;
  };
  entries: {
    id: Generated<number>;
    account_id: number;
    kind: EntryKind;
    granted: number;
    held: number;
    posted: number;
    overrun: number;
    available_after: number;
    job: number | null;
    actor: string;
    reason: string;
    at: number;
  };
  /** The sums of the entries about used time, by user, project and month. */
  monthly_usage: {
    /** `YYYY-MM`, UTC. */
    month: string;
    project_id: number;
    user_id: string;
    /** The number of jobs that ended. */
    jobs: number;
    /** The used time, less refunds. */
    time_seconds: number;
  };
  audit: {
    id: Generated<number>;
    actor: string;
    address: string | null;
    token_id: number | null;
    session_id: number | null;
    request_id: string | null;
    action: string;
    subject: string;
    details: string;
    at: number;
    /** Covers the record and the hash of the record before it. */
    hash: string;
  };
  idempotency: {
    user_id: string;
    key: string;
    request_hash: string;
    /** Empty while the request is in progress. */
    response: string;
    at: number;
    /** A random id of the request in progress; null once the response is stored. */
    claimed_by: string | null;
    claimed_until: Generated<number>;
    /** The hash of the uploaded file; null for a request without one. */
    body_sha256: string | null;
  };
  jobs: {
    id: Generated<number>;
    job_id: string;
    owner: string;
    project_id: number;
    hpc: string;
    project_name: string;
    request: string;
    units: number;
    input_sha256: string | null;
    input_bytes: number;
    unpacked_bytes: number;
    state: JobState;
    outcome: Outcome | null;
    reason: string | null;
    exit_code: number | null;
    started_at: number | null;
    ended_at: number | null;
    elapsed_seconds: number | null;
    engine_ref: string | null;
    accepted_at: number;
    /** When the dispatcher should try to submit the job next. */
    due_at: number;
    /** How often the dispatcher has tried to submit the job, not counting tries that did not reach the engine. */
    tries: number;
    /** Since when a dispatcher has been submitting the job; null between two tries. */
    claimed_at: number | null;
    /** The span of the submission, as a W3C `traceparent`; null without tracing. */
    trace_parent: string | null;
    /** Since when the owner knows that the job cannot be submitted, and why it cannot; null for other jobs. */
    delayed_at: number | null;
    delay_reason: string | null;
    /** When the cancellation was first requested. */
    cancel_requested_at: number | null;
    /** The owner or the administrator who requested it, or the limit that the job exceeds. */
    cancel_requested_by: string | null;
    public_json: string;
    /** Copied from the public JSON, for filters. */
    title: string;
    stage: string;
    failed: number;
    terminal: number;
    /** When the files will be deleted; null until the owner has been notified of that time. */
    expires_at: number | null;
  };
  inputs: { job: number; content: Buffer };
  job_tags: { tag: string; job: number; owner: string };
  systems: {
    hpc: string;
    status: SystemStatus;
    since: number;
    detail: string;
    paused_at: number | null;
    pause_reason: string | null;
  };
  /** Values of the whole installation: the id of the data folder, the hash of the last record of the audit trail. */
  settings: { name: string; value: string };
  leases: {
    name: string;
    /** Host and process, for people who read the table. */
    holder: string;
    /** The fencing token: incremented each time that the lease is acquired. */
    term: number;
    expires_at: number;
  };
  events: {
    id: Generated<number>;
    user_id: string;
    job: number | null;
    kind: EventKind;
    data: string;
    at: number;
    /** Numbers the events of a user, without gaps, in commit order. */
    seq: number;
    /** The public JSON of the job at that time. */
    job_json: string | null;
    /** 1 for an expired event, which only the timeline of its job still shows. */
    expired: number;
  };
  webhooks: {
    id: Generated<number>;
    user_id: string;
    url: string;
    description: string;
    /** The secret is derived from it. Each rotation increments it. */
    generation: number;
    /** Until then the secret of the generation before signs requests too. */
    former_until: number;
    /** Of the key from which the secrets are derived. */
    key_id: string;
    created_at: number;
    /** The number of consecutive failed attempts, and the time of the first. */
    failures: number;
    failing_since: number | null;
    /** Nothing is sent before this time, after several consecutive failures. */
    pause_until: number;
    disabled_at: number | null;
    disabled_reason: string | null;
    disabled_by: WebhookDisabler | null;
  };
  /** The kinds of events that a webhook receives; `*` for all. */
  subscriptions: { webhook_id: number; kind: string };
  deliveries: {
    id: Generated<number>;
    webhook_id: number;
    /** Null for a test delivery. */
    event_id: number | null;
    state: DeliveryState;
    created_at: number;
    due_at: number;
    tries: number;
    lease_owner: string | null;
    lease_until: number;
    last_at: number | null;
    last_result: DeliveryResult | null;
    last_error: string | null;
  };
}

export type DeviceRequestState = 'pending' | 'approved' | 'denied';

export type DeliveryState = 'pending' | 'delivered' | 'failed';

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
