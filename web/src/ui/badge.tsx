import type { ReactNode } from 'react';
import styles from './badge.module.css';

export type Tone = 'neutral' | 'info' | 'good' | 'warning' | 'bad';

/** A word with a colour. The word alone says everything. */
export function Badge({ tone = 'neutral', children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`${styles.badge} ${styles[tone] ?? ''}`}>{children}</span>;
}
