/** Event types with their descriptions. The types are stable; the descriptions appear in the OpenAPI document. */
export const eventKinds = {
  'job.accepted': 'the job was accepted, and its time and space are on hold',
  'job.delayed': 'the job cannot be submitted to the HPC system, for the given reason; Bursar keeps trying',
  'job.queued': 'the HPC system has queued the job',
  'job.running': 'the job has started',
  'job.cancel_requested': 'somebody else than you has asked for the cancellation of the job, for the given reason',
  'job.ended': 'the job has ended, with any outcome, and its hold is settled',
  'job.expiring': "the job's files will be deleted soon: the project's retention period is ending",
  'job.deleted': "the job's files have been deleted",
  'quota.threshold': 'the usage of a quota has reached 80 % or 100 %',
  'quota.changed': 'an administrator or a manager has changed a quota, for the given reason',
  'quota.expiring': 'a time grant expires soon',
  'token.expiring': 'one of your tokens expires soon',
  'webhook.disabled': 'a webhook has been disabled: it failed for too long, or an administrator has stopped it',
} as const;

export type EventKind = keyof typeof eventKinds;
