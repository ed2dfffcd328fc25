/** The Prometheus metric families. */
export const families = {
  bursar_scheduler_commands_total: { type: 'counter', help: 'Commands sent to the scheduler of a system.' },
  bursar_watch_rounds_total: { type: 'counter', help: 'Polls of the jobs of a system.' },
  bursar_watch_seconds_total: { type: 'counter', help: 'Seconds spent on these polls, database included.' },
  bursar_jobs: { type: 'gauge', help: 'Unfinished jobs of a system, by state.' },
  bursar_jobs_delayed: { type: 'gauge', help: 'Jobs that cannot be submitted to a system. Their timelines say why.' },
  bursar_jobs_missing: { type: 'gauge', help: 'Jobs that a system has not reported for a long time.' },
  bursar_system_up: { type: 'gauge', help: 'Health of a system: 1 up, 0.5 degraded, 0 down.' },
  bursar_storage_writable: { type: 'gauge', help: 'Whether the server can store data: 1 yes, 0 no.' },
  bursar_http_requests_total: { type: 'counter', help: 'Requests answered, by method and status.' },
  bursar_connections: { type: 'gauge', help: 'Open connections of clients.' },
  bursar_connections_cut_total: { type: 'counter', help: 'Connections refused or closed by a limit, by reason.' },
  bursar_open_requests: { type: 'gauge', help: 'Uploads, downloads, followed logs and event listeners in progress.' },
  bursar_refused_requests_total: {
    type: 'counter',
    help: 'Requests refused because too many of their kind were open.',
  },
  bursar_followed_logs: { type: 'gauge', help: 'Logs that clients are following.' },
  bursar_log_followers: { type: 'gauge', help: 'Clients that are following a log.' },
  bursar_log_looks_total: { type: 'counter', help: 'Polls of followed logs.' },
  bursar_webhook_attempts_total: { type: 'counter', help: 'Webhook delivery attempts, by outcome.' },
} as const;
