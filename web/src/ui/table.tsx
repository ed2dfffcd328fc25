import type { ReactNode } from 'react';
import styles from './table.module.css';

/** A table that scrolls sideways in a narrow window. Cells with the class `number` are aligned to the right. */
export function Table({ label, className = '', children }: { label: string; className?: string; children: ReactNode }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it
    <section className={styles.scroller} aria-label={label} tabIndex={0}>
      <table className={`${styles.table} ${className}`}>{children}</table>
    </section>
  );
}

/** The header of a column whose content speaks for itself, such as buttons. Screen readers announce it. */
export function HiddenColumnHeader({ children }: { children: string }) {
  return (
    <th scope="col">
      <span className="visually-hidden">{children}</span>
    </th>
  );
}
