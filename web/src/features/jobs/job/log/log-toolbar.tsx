import { useState } from 'react';
import { Button, buttonClass } from '../../../../ui/button.tsx';
import { formatCount, formatNumber } from '../../../../ui/format.ts';
import styles from './log-tab.module.css';
import type { LogSearchState } from './use-log-search.ts';

interface LogToolbarProps {
  search: LogSearchState;
  wraps: boolean;
  onWraps: (wraps: boolean) => void;
  onLine: (number: number) => void;
  downloadUrl: string;
  downloadName: string;
}

export function LogToolbar({ search, wraps, onWraps, onLine, downloadUrl, downloadName }: LogToolbarProps) {
  return (
    <div className={styles.toolbar}>
      <LogSearchField search={search} />
      <LineField onLine={onLine} />
      <label className={styles.check}>
        <input type="checkbox" checked={wraps} onChange={(event) => onWraps(event.target.checked)} /> Wrap long lines
      </label>
      <a className={buttonClass()} href={downloadUrl} download={downloadName}>
        Download
      </a>
    </div>
  );
}

function LogSearchField({ search }: { search: LogSearchState }) {
  const { typed, text, setText, matchCount, position, next, previous } = search;
  return (
    <search className={styles.search}>
      <input
        type="search"
        aria-label="Search the log"
        placeholder="Search the log"
        value={typed}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === 'Escape') setText('');
          if (event.key !== 'Enter') return;
          event.preventDefault();
          (event.shiftKey ? previous : next)();
        }}
      />
      <span className={styles.count} role="status">
        {text !== '' && describeMatches(position, matchCount)}
      </span>
      <Button onClick={previous} disabled={matchCount === 0} aria-label="Previous match" title="Shift+Enter">
        ↑
      </Button>
      <Button onClick={next} disabled={matchCount === 0} aria-label="Next match" title="Enter">
        ↓
      </Button>
    </search>
  );
}

function describeMatches(position: number, count: number): string {
  if (count === 0) return 'No match';
  const lines = formatCount(count, 'line');
  return position === 0 ? lines : `${formatNumber(position)} of ${lines}`;
}

/** Goes to a line by its number, also by the keyboard alone. */
function LineField({ onLine }: { onLine: (number: number) => void }) {
  const [value, setValue] = useState('');
  return (
    <form
      className={styles.lineForm}
      onSubmit={(event) => {
        event.preventDefault();
        if (/^[1-9]\d{0,9}$/.test(value)) onLine(Number(value));
      }}
    >
      <input
        type="text"
        inputMode="numeric"
        aria-label="Go to line"
        placeholder="Line"
        value={value}
        onChange={(event) => setValue(event.target.value)}
      />
    </form>
  );
}
