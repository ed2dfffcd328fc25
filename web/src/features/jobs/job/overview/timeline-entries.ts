import type { Timeline } from '@bursar/client';
import { outcomeTexts } from '../../../../shared/outcome-texts.ts';

export type TimelineEntry = Timeline['entries'][number];

const titles: Partial<Record<TimelineEntry['type'], string>> = {
  'job.accepted': 'Accepted',
  'job.delayed': 'Waits for the system',
  'job.queued': 'Queued on the system',
  'job.running': 'Started',
  'job.cancel_requested': 'Cancellation requested',
  'job.ended': 'Ended',
  'job.expiring': 'Files will be deleted soon',
  'job.deleted': 'Files deleted',
  'ledger.refund': 'Refunded',
};

/** An entry in plain words. `amount` formats charged seconds. */
export function describeEntry(entry: TimelineEntry, amount: (seconds: number) => string) {
  const {
    type,
    outcome,
    reason,
    by,
    exit_code: exitCode,
    scheduler_message: message,
    charged_seconds: charged,
  } = entry;
  const details = [
    by === null ? null : `By ${by === 'admin' ? 'an administrator' : `the ${by.replaceAll('_', ' ')}`}`,
    reason,
    exitCode === null || exitCode === 0 || reason?.includes(`exit code ${exitCode}`) ? null : `Exit code ${exitCode}`,
    message === null || message === reason ? null : `The system says: ${message}`,
    type === 'job.accepted' && entry.held_seconds !== null ? `Holds ${amount(entry.held_seconds)}` : null,
    type === 'job.ended' && charged !== null ? `Used ${amount(charged)}` : null,
    type === 'ledger.refund' && charged !== null ? amount(-charged) : null,
  ].filter((detail) => detail !== null && detail !== '');
  const title = type === 'job.ended' && outcome !== null ? outcomeTexts[outcome] : (titles[type] ?? type);
  return { title, details: [...new Set(details)] };
}

interface Duration {
  label: string;
  seconds: number;
}

const labels: Partial<Record<TimelineEntry['type'], string>> = {
  'job.accepted': 'prepared for',
  'job.delayed': 'waited for',
  'job.queued': 'queued for',
  'job.running': 'ran for',
  'job.cancel_requested': 'stopped after',
  'job.ended': 'after',
};

/** Of the last entry, while the job has not ended. */
const openLabels: Partial<Record<TimelineEntry['type'], string>> = {
  'job.accepted': 'being prepared for',
  'job.delayed': 'waiting for',
  'job.queued': 'in the queue for',
  'job.running': 'running for',
  'job.cancel_requested': 'stopping for',
};

/** The time from each entry to the next; that of the last one until now, unless the job has ended. */
export function durationsOf({ entries, job, started_at: startedAt, used_seconds: used }: Timeline, nowMs: number) {
  // The event of a start is written when it is noticed, which may be later.
  const timeOf = ({ type, at }: TimelineEntry) =>
    Date.parse(type === 'job.running' && startedAt !== null ? startedAt : at);
  return entries.map((entry, index): Duration | undefined => {
    const next = entries[index + 1];
    if (next === undefined && job.terminal_stage) return undefined;
    const label = next === undefined ? (openLabels[entry.type] ?? 'for') : (labels[entry.type] ?? 'after');
    if (entry.type === 'job.running' && next?.type === 'job.ended' && used !== null) return { label, seconds: used };
    const isShortRun = entry.type === 'job.queued' && next?.type === 'job.ended' && startedAt !== null;
    const until = next === undefined ? nowMs : timeOf(next);
    const seconds = Math.max(0, (until - timeOf(entry)) / 1000);
    return { label: isShortRun ? 'queued and ran for' : label, seconds };
  });
}
