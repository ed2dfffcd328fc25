import type { Generated } from 'kysely';
import type { EventKind } from '../../domain/event.ts';
import type { JobState, Outcome } from '../../domain/jobs/job.ts';
import type { SystemStatus } from '../../domain/systems/health.ts';

/**
 * The tables as code sees them. Times are epoch milliseconds, booleans 0 or 1, amounts integers (seconds, bytes);
 * the two databases agree on all of these.
 */
export interface Tables {
  users: {
    id: string;
    role: 'user' | 'admin';
    created_at: number;
    /** Rises with every change of what the user's jobs show. */
    jobs_version: Generated<number>;
    /** The number of the last event of the user. */
    event_seq: Generated<number>;
    /** The number of the last event that has been forgotten. */
    events_forgotten: Generated<number>;
    /** How many webhooks the user has. */
    webhooks: Generated<number>;
  };
  identities: { issuer: string; subject: string; user_id: string };
  tokens: {
    id: Generated<number>;
    user_id: string;
    hash: string;
    name: string;
    admin: number;
    created_at: number;
    expires_at: number | null;
    revoked_at: number | null;
  };
  projects: {
    id: Generated<number>;
    hpc: string;
    name: string;
    auto_join: number;
    /** What a new member gets. */
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
    /** When its members were told that its end is near. */
    announced_at: number | null;
  };
  memberships: {
    id: Generated<number>;
    user_id: string;
    project_id: number;
    status: 'active' | 'removed' | 'banned';
    reason: string;
    since: number;
  };
  accounts: {
    id: Generated<number>;
    project_id: number;
    /** A time account belongs to a period; a space account, being a level, outlives them: 0. */
    period_id: number;
    /** The user whose cap it is, or '' for the pool of the project. */
    holder: string;
    resource: Resource;
    granted: number;
    held: number;
    posted: number;
    overrun: number;
    /** The highest share of it, in percent, whose use has been announced: 0, 80 or 100. */
    alerted: number;
    /** Rises with every change of its figures. */
    version: Generated<number>;
  };
  holds: {
    id: Generated<number>;
    job: number;
    attempt: number;
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
  audit: { id: Generated<number>; actor: string; act: string; subject: string; details: string; at: number };
  idempotency: {
    user_id: string;
    key: string;
    request_hash: string;
    /** Empty while the request is being worked on. */
    response: string;
    at: number;
    /** Who is working on it; null once it is answered. */
    claimed_by: string | null;
    claimed_until: Generated<number>;
    /** Of the file that came with the request; null for a request without one. */
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
    attempt: number;
    accepted_at: number;
    /** When the dispatcher should look at it next. */
    due_at: number;
    tries: number;
    /** When its owner asked for its end. */
    cancel_requested_at: number | null;
    public_json: string;
    /** As they stand in the public JSON. */
    title: string;
    stage: string;
    failed: number;
    terminal: number;
    /** When its files go, as its owner was told; null before that. */
    expires_at: number | null;
    /** The `jobs_version` of its owner that the last change of what it shows came with. */
    version: number;
  };
  inputs: { job: number; content: Buffer };
  systems: {
    hpc: string;
    status: SystemStatus;
    since: number;
    detail: string;
    paused_at: number | null;
    pause_reason: string | null;
  };
  /** What is true of the whole: the mark of the data folder. */
  facts: { name: string; value: string };
  leases: {
    name: string;
    /** Who has it, for people who read it. */
    holder: string;
    /** Grows each time that it is taken. */
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
    /** Counts the events of a user, without gaps and in the order of their commits. */
    seq: number;
    /** The public JSON of the job as it was then. */
    job_json: string | null;
    /** Whether it is too old to be told: it stays for the timeline of its job alone. */
    forgotten: number;
  };
  webhooks: {
    id: Generated<number>;
    user_id: string;
    url: string;
    description: string;
    secret: string;
    /** After a rotation both secrets sign for a while. */
    former_secret: string | null;
    former_until: number;
    created_at: number;
    /** Attempts in a row that failed, and when the first of them was. */
    failures: number;
    failing_since: number | null;
    /** Until then nothing is sent to it: it has failed a few times in a row. */
    pause_until: number;
    disabled_at: number | null;
    disabled_reason: string | null;
  };
  /** Which events a webhook wants; `*` for all. */
  subscriptions: { webhook_id: number; kind: string };
  deliveries: {
    id: Generated<number>;
    webhook_id: number;
    /** Null for one that only tests the webhook. */
    event_id: number | null;
    state: DeliveryState;
    created_at: number;
    due_at: number;
    tries: number;
    lease_owner: string | null;
    lease_until: number;
    last_at: number | null;
    last_status: number | null;
    last_error: string | null;
  };
}

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
