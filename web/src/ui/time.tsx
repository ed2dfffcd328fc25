import { useEffect, useState } from 'react';

const local = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'short' });
const localDate = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const relative = new Intl.RelativeTimeFormat(undefined, { numeric: 'auto' });

const utcOf = (value: string) => `${new Date(value).toISOString().slice(0, 19).replace('T', ' ')} UTC`;

interface TimeProps {
  value: string | null;
  /** `relative`: such as "5 minutes ago", and goes on. */
  form?: 'full' | 'date' | 'relative';
}

/** A local time, with UTC on hover. */
export function Time({ value, form = 'full' }: TimeProps) {
  const now = useNow(form === 'relative' ? 10_000 : undefined);
  if (value === null) return <span className="muted">–</span>;
  const date = new Date(value);
  const formats = { full: local, date: localDate } as const;
  const text = form === 'relative' ? relativeTime(date.getTime() - now) : formats[form].format(date);
  const title = form === 'relative' ? `${local.format(date)} · ${utcOf(value)}` : utcOf(value);
  return (
    <time dateTime={value} title={title}>
      {text}
    </time>
  );
}

/** The age of data that no event keeps up to date. `at` is in epoch milliseconds, 0 before the first read. */
export function ReadTime({ at }: { at: number }) {
  if (at === 0) return 'Reading…';
  return (
    <>
      Read <Time value={new Date(at).toISOString()} form="relative" />
    </>
  );
}

/** The current time, which is read again after each interval. */
export function useNow(intervalMs: number | undefined): number {
  const [now, setNow] = useState(Date.now);
  useEffect(() => {
    if (intervalMs === undefined) return;
    const timer = setInterval(() => setNow(Date.now()), intervalMs);
    return () => clearInterval(timer);
  }, [intervalMs]);
  return now;
}

function relativeTime(differenceMs: number): string {
  const seconds = Math.round(differenceMs / 1000);
  const size = Math.abs(seconds);
  if (size < 60) return relative.format(seconds, 'second');
  if (size < 3600) return relative.format(Math.round(seconds / 60), 'minute');
  if (size < 86_400) return relative.format(Math.round(seconds / 3600), 'hour');
  return relative.format(Math.round(seconds / 86_400), 'day');
}
