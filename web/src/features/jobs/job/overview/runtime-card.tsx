import type { Timeline } from '@bursar/client';
import { Bar } from '../../../../ui/bar.tsx';
import { Card } from '../../../../ui/card.tsx';
import { formatDuration } from '../../../../ui/format.ts';
import { useNow } from '../../../../ui/time.tsx';
import styles from './overview.module.css';

/** The elapsed part of the granted time. It goes on while the job runs. */
export function RuntimeCard({ timeline }: { timeline: Timeline }) {
  const { job, started_at: startedAt, used_seconds: usedSeconds, request } = timeline;
  const isRunning = startedAt !== null && !job.terminal_stage;
  const now = useNow(isRunning ? 1000 : undefined);
  const grantedSeconds = request.runtime * 3600;
  const elapsedSeconds = isRunning ? Math.max(0, (now - Date.parse(startedAt)) / 1000) : (usedSeconds ?? 0);
  const granted = formatDuration(grantedSeconds);
  const text = `${formatDuration(elapsedSeconds)} of ${granted}`;
  if (startedAt === null && job.terminal_stage) return null;
  return (
    <Card title="Runtime">
      <Bar
        label={startedAt === null ? `Not started, ${granted} granted` : text}
        max={grantedSeconds}
        parts={[{ value: elapsedSeconds, tone: elapsedSeconds > 0.9 * grantedSeconds ? 'warning' : 'info' }]}
      />
      <p className={`muted ${styles.caption}`}>
        {startedAt === null
          ? `Not started yet. It may run for ${granted}.`
          : `${isRunning ? 'Runs for' : 'Ran for'} ${text}`}
      </p>
    </Card>
  );
}
