import type { Outcome } from '@bursar/client';

/** The ends of jobs in plain words. */
export const outcomeTexts: Record<Outcome, string> = {
  succeeded: 'Succeeded',
  failed: 'Failed',
  timed_out: 'Ran out of time',
  out_of_memory: 'Ran out of memory',
  output_exceeded: 'Wrote too much',
  cancelled: 'Cancelled',
  cancelled_by_site: 'Cancelled by the staff',
  rejected: 'Refused by the system',
  lost: 'Lost by the system',
  node_failed: 'Stopped by a failure of a node',
  preempted: 'Stopped for another job',
};
