import type { JobSummary } from '@bursar/client';
import { Bar } from '../../../ui/bar.tsx';
import { formatDuration } from '../../../ui/format.ts';
import { useNow } from '../../../ui/time.tsx';
import styles from './job-list.module.css';

/** The elapsed part of the granted time as a bar with text. That of a running job moves. */
export function JobTime({ summary }: { summary: JobSummary }) {
  const { job, started_at: startedAt } = summary;
  const now = useNow(job.terminal_stage ? undefined : startedAt === null ? 10_000 : 1000);
  const grantedSeconds = job.runtime * 3600;
  const elapsedSeconds = startedAt === null ? 0 : secondsBetween(startedAt, job.end_date ?? now);
  const text = describeTime(summary, now, elapsedSeconds);
  const isOver = elapsedSeconds >= grantedSeconds && startedAt !== null;
  const tone = isOver ? 'warning' : job.terminal_stage ? 'neutral' : 'info';
  return (
    <div className={styles.time}>
      <span>{text}</span>
      <Bar label={text} max={grantedSeconds} parts={[{ value: elapsedSeconds, tone }]} />
    </div>
  );
}

function describeTime({ job, started_at: startedAt }: JobSummary, now: number, elapsedSeconds: number): string {
  const granted = formatDuration(job.runtime * 3600);
  if (startedAt !== null) return `${formatDuration(elapsedSeconds)} of ${granted}`;
  if (job.terminal_stage) return `Not started`;
  return `Waiting for ${formatDuration(secondsBetween(job.init_date, now))}`;
}

/** The clocks of the server and of the browser differ: a time ahead of ours is now. */
const secondsBetween = (from: string, to: string | number) =>
  Math.max(0, (new Date(to).getTime() - Date.parse(from)) / 1000);
