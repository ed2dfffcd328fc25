/** What is measured. */
export const families = {
  bursar_scheduler_commands_total: { type: 'counter', help: 'Commands sent to the scheduler of a system.' },
  bursar_watch_rounds_total: { type: 'counter', help: 'Rounds of following the jobs of a system.' },
  bursar_watch_seconds_total: { type: 'counter', help: 'Seconds that these rounds took, the books included.' },
  bursar_jobs: { type: 'gauge', help: 'Jobs of a system that are not finished, by state.' },
  bursar_jobs_missing: { type: 'gauge', help: 'Jobs that a system has not mentioned for a long time.' },
  bursar_system_up: { type: 'gauge', help: 'Whether a system answers: 1 up, 0.5 degraded, 0 down.' },
  bursar_http_requests_total: { type: 'counter', help: 'Requests answered, by method and status.' },
  bursar_followed_logs: { type: 'gauge', help: 'Logs that are looked at because somebody follows them.' },
  bursar_log_followers: { type: 'gauge', help: 'Clients that follow a log.' },
  bursar_log_looks_total: { type: 'counter', help: 'Looks at logs that are followed.' },
  bursar_webhook_attempts_total: { type: 'counter', help: 'Attempts to deliver to webhooks, by outcome.' },
} as const;
