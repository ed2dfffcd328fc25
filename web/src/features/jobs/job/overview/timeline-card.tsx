import type { System, Timeline } from '@bursar/client';
import { formatAmount } from '../../../../shared/amount.ts';
import { Card } from '../../../../ui/card.tsx';
import { formatDuration } from '../../../../ui/format.ts';
import { Time, useNow } from '../../../../ui/time.tsx';
import styles from './timeline-card.module.css';
import { describeEntry, durationsOf, type TimelineEntry } from './timeline-entries.ts';

interface TimelineCardProps {
  timeline: Timeline;
  charge: System['charge'] | undefined;
}

/** The history of the job, with the time between its steps. The last one goes on while the job has not ended. */
export function TimelineCard({ timeline, charge }: TimelineCardProps) {
  const now = useNow(timeline.job.terminal_stage ? undefined : 1000);
  const durations = durationsOf(timeline, now);
  return (
    <Card title="Timeline">
      <ol className={styles.list}>
        {timeline.entries.map((entry, index) => (
          // biome-ignore lint/suspicious/noArrayIndexKey: entries are only added at the end
          <li key={index} className={styles.entry} data-tone={toneOf(entry)}>
            <Step entry={entry} charge={charge} />
            {durations[index] !== undefined && (
              <div className={styles.duration}>
                {durations[index].label} {formatDuration(durations[index].seconds)}
              </div>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}

function Step({ entry, charge }: { entry: TimelineEntry; charge: System['charge'] | undefined }) {
  const { title, details } = describeEntry(entry, (seconds) => formatAmount('time', seconds, charge));
  return (
    <div className={styles.step}>
      <strong>{title}</strong>
      <span className="muted">
        <Time value={entry.at} />
      </span>
      {entry.deletes_at !== null && (
        <span className={styles.detail}>
          On <Time value={entry.deletes_at} />
        </span>
      )}
      {details.map((detail) => (
        <span key={detail} className={styles.detail}>
          {detail}
        </span>
      ))}
    </div>
  );
}

function toneOf({ type, outcome }: TimelineEntry): string {
  if (type === 'job.delayed' || type === 'job.cancel_requested' || type === 'job.expiring') return 'warning';
  if (type !== 'job.ended') return 'neutral';
  if (outcome === 'cancelled') return 'neutral';
  return outcome === 'succeeded' ? 'good' : 'bad';
}
