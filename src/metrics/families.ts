/** A metric family, as Prometheus shows it. The labels of a family have few values: never names of users, jobs or files. */
export interface Family {
  type: 'counter' | 'gauge' | 'histogram';
  labels: readonly string[];
  help: string;
  /** The upper bounds of a histogram. */
  buckets?: readonly number[];
}

/** From a cached response to a slow upload. */
const requestSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120];
/** From a statement in memory to the timeout of PostgreSQL's statements. */
const databaseSeconds = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30];
const commandSeconds = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

type Labels = readonly string[];
const counter = <const L extends Labels>(labels: L, help: string) => ({ type: 'counter', labels, help }) as const;
const gauge = <const L extends Labels>(labels: L, help: string) => ({ type: 'gauge', labels, help }) as const;
const histogram = <const L extends Labels>(labels: L, buckets: readonly number[], help: string) =>
  ({ type: 'histogram', labels, buckets, help }) as const;

/** Bursar's own metric families. docs/metrics.md is generated from them. */
export const families = {
  bursar_build_info: gauge(['version'], 'The version of Bursar; always 1.'),

  bursar_http_requests_total: counter(
    ['method', 'status'],
    'Responses sent, by method and status; aborted if the client disconnected before.',
  ),
  bursar_http_request_duration_seconds: histogram(
    ['method', 'route', 'status'],
    requestSeconds,
    'Time from the headers of a request to the end of its response, by route and status class (2xx to 5xx, or aborted ' +
      'by the client). Of an event stream: to its first byte. Requests for unknown paths, and with methods that a path does not support, have the route "unmatched".',
  ),
  bursar_upload_bytes_total: counter([], 'Bytes of submitted zips that were received.'),
  bursar_download_bytes_total: counter(
    [],
    'Bytes of files, logs and archives of jobs that were sent, with their headers.',
  ),
  bursar_connections: gauge([], 'Open connections of clients.'),
  bursar_connections_cut_total: counter(['reason'], 'Connections refused or closed by a limit, by reason.'),
  bursar_tls_certificate_expiry_seconds: gauge(
    [],
    'Unix time at which the TLS certificate of Bursar expires; 0 if Bursar has none.',
  ),
  bursar_open_requests: gauge(['kind'], 'Uploads, downloads, followed logs and event listeners in progress.'),
  bursar_refused_requests_total: counter(['kind'], 'Requests refused because too many of their kind were open.'),
  bursar_followed_logs: gauge([], 'Logs that clients are following.'),
  bursar_log_followers: gauge([], 'Clients that are following a log.'),
  bursar_log_polls_total: counter([], 'Polls of followed logs.'),

  bursar_database_operation_duration_seconds: histogram(
    ['operation'],
    databaseSeconds,
    'Time of database operations. statement: one without a transaction. transaction: from its begin to its end, the ' +
      'commit included. commit: until the data is on disk. acquire: waiting for a connection (PostgreSQL) or for the turn ' +
      'to write (SQLite).',
  ),
  bursar_database_commit_transactions: histogram(
    [],
    [1, 2, 4, 8, 16, 32, 64],
    'Transactions that share one commit. SQLite only.',
  ),
  bursar_database_connections: gauge(['state'], 'Connections of the pool, idle or busy. PostgreSQL only.'),
  bursar_database_waiting: gauge([], 'Operations that wait for a connection of the pool. PostgreSQL only.'),
  bursar_storage_writable: gauge([], 'Whether the server can store data: 1 yes, 0 no.'),

  bursar_system_up: gauge(['hpc'], 'Health of a system: 1 up, 0.5 degraded, 0 down.'),
  bursar_scheduler_commands_total: counter(['hpc', 'command'], 'Commands sent to the scheduler of a system.'),
  bursar_scheduler_command_duration_seconds: histogram(
    ['hpc', 'command'],
    commandSeconds,
    'Time of the commands of a scheduler, whatever their result.',
  ),
  bursar_scheduler_command_failures_total: counter(
    ['hpc', 'command'],
    'Commands of a scheduler that failed: exit code, timeout, or no connection.',
  ),
  bursar_watch_rounds_total: counter(['hpc'], 'Polls of the jobs of a system.'),
  bursar_watch_seconds_total: counter(['hpc'], 'Seconds spent on these polls, database included.'),

  bursar_jobs: gauge(
    ['hpc', 'state'],
    'Unfinished jobs of a system, by state: accepted, submitting, queued (the scheduler has it), running.',
  ),
  bursar_oldest_job_age_seconds: gauge(
    ['hpc', 'state'],
    'Time since the oldest job of a state was accepted; 0 if there is none.',
  ),
  bursar_jobs_cancel_requested: gauge(['hpc'], 'Jobs whose cancellation was requested, and which have not ended.'),
  bursar_jobs_delayed: gauge(['hpc'], 'Jobs that cannot be submitted to a system. Their timelines say why.'),
  bursar_jobs_missing: gauge(['hpc'], 'Jobs that a system has not reported for a long time.'),
  bursar_stuck_submissions: gauge(
    ['hpc'],
    'Jobs whose submission began more than 15 minutes ago and has not ended: no id of the scheduler, no error.',
  ),
  bursar_quota_held_seconds: gauge(['hpc'], 'Time that is held for unfinished jobs, in the unit of the quotas.'),
  bursar_quota_held_bytes: gauge(['hpc'], 'Space that is held for unfinished jobs.'),

  bursar_lease_holder: gauge(
    ['lease'],
    'Whether this instance holds a lease: 1 yes, 0 no. A lease is the exclusive right to work on a system, for example.',
  ),
  bursar_webhook_attempts_total: counter(['outcome'], 'Webhook delivery attempts, by outcome.'),
  bursar_webhook_deliveries_pending: gauge([], 'Events that have not been delivered to their webhooks.'),
  bursar_webhook_oldest_pending_seconds: gauge([], 'Age of the oldest of these deliveries; 0 if there is none.'),
  bursar_trace_spans_dropped_total: counter(
    [],
    'Spans of traces that were not sent, because the collector is slow or down.',
  ),
} satisfies Record<string, Family>;

type Families = typeof families;
type NameOf<Type extends Family['type']> = {
  [Name in keyof Families]: Families[Name]['type'] extends Type ? Name : never;
}[keyof Families];

export type CounterName = NameOf<'counter'>;
export type GaugeName = NameOf<'gauge'>;
export type HistogramName = NameOf<'histogram'>;
export type LabelsOf<Name extends keyof Families> = Readonly<Record<Families[Name]['labels'][number], string>>;
