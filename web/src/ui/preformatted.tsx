import styles from './preformatted.module.css';

/** Text as it is, in a box that scrolls when it is higher than `maxHeight`. */
export function Preformatted({ text, maxHeight }: { text: string; maxHeight: string }) {
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it
    <pre className={styles.text} style={{ maxHeight }} tabIndex={0}>
      {text}
    </pre>
  );
}
