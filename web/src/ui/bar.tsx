import type { Tone } from './badge.tsx';
import styles from './bar.module.css';

interface BarProps {
  /** Says what the bar shows, with its numbers, for screen readers. */
  label: string;
  max: number;
  parts: readonly { value: number; tone?: Tone }[];
}

/** One or several parts of a whole, such as the used and the held part of a quota. */
export function Bar({ label, max, parts }: BarProps) {
  const percent = (value: number) => (max <= 0 ? 0 : Math.min(100, Math.max(0, (100 * value) / max)));
  return (
    <div className={styles.bar} role="img" aria-label={label} title={label}>
      {parts.map(({ value, tone = 'info' }, index) => (
        <div
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts keep their places
          key={index}
          className={`${styles.part} ${styles[tone] ?? ''}`}
          style={{ width: `${percent(value)}%` }}
        />
      ))}
    </div>
  );
}
