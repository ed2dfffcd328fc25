/** What users are told of. The names are stable and meant for programs; the texts become part of the reference. */
export const eventKinds = {
  'job.accepted': 'a job was accepted, and its time and space are held',
  'job.queued': 'the HPC system has the job',
  'job.running': 'the job has started',
  'job.ended': 'the job is over, one way or another, and its hold is settled',
  'job.expiring': 'the files of the job will be deleted soon: the time for which the project keeps them ends',
  'job.deleted': 'the files of the job are deleted',
  'quota.threshold': 'the use of a quota has crossed 80 % or 100 %',
  'quota.expiring': 'a grant of time ends soon',
  'webhook.disabled': 'a webhook failed for so long that nothing is sent to it any more',
} as const;

export type EventKind = keyof typeof eventKinds;
