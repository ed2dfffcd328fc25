import { type Ref, type RefObject, useImperativeHandle, useLayoutEffect, useRef, useState } from 'react';
import type { LogBuffer } from './log-buffer.ts';
import styles from './log-lines.module.css';
import { splitAtMatches } from './log-search.ts';
import { layoutRows, type RowLayout, rowHeight } from './row-layout.ts';
import { useColumns } from './use-columns.ts';

/** Rows above and below the window, so that scrolling shows no gap. */
const spareRows = 20;
/** The view follows the end from this distance on. */
const endDistance = 1.5 * rowHeight;

export interface LogLinesHandle {
  showLine(index: number): void;
  /** The index of the first visible line. */
  topLine(): number;
}

interface LogLinesProps {
  label: string;
  buffer: LogBuffer;
  wraps: boolean;
  isFollowing: boolean;
  onFollowing: (isFollowing: boolean) => void;
  searchText: string;
  /** The index of the line of the current search result. */
  foundLine: number | undefined;
  /** The number of the line that the address names. */
  markedNumber: number | undefined;
  /** The address of a line. */
  lineHref: (number: number) => string;
  onLine: (number: number) => void;
  ref: Ref<LogLinesHandle>;
}

/** The lines of a log. Only the visible ones are elements, so that the length of the log does not matter. */
export function LogLines(props: LogLinesProps) {
  const { label, buffer, wraps, isFollowing, onFollowing, ref } = props;
  const scroller = useRef<HTMLElement>(null);
  const gutterWidth = gutterOf(buffer);
  const columns = useColumns(scroller, gutterWidth);
  const layout = layoutRows(buffer.lines, wraps ? columns : undefined);
  const [topRow, setTopRow] = useState(0);
  const [windowRows, setWindowRows] = useState(50);
  const lastTop = useRef(0);
  const keepPosition = useKeptPosition(scroller, buffer, layout, isFollowing);

  useImperativeHandle(ref, () => ({
    showLine(index) {
      const element = scroller.current;
      if (element === null) return;
      element.scrollTop = layout.rowOf(index) * rowHeight - element.clientHeight / 3;
      keepPosition();
      lastTop.current = element.scrollTop;
    },
    topLine: () => layout.lineAt(Math.ceil((scroller.current?.scrollTop ?? 0) / rowHeight)),
  }));

  const onScroll = () => {
    const element = scroller.current;
    if (element === null) return;
    const { scrollTop, scrollHeight, clientHeight } = element;
    keepPosition();
    setTopRow(Math.floor(scrollTop / rowHeight / 5) * 5);
    setWindowRows(Math.ceil(clientHeight / rowHeight));
    const isAtEnd = scrollTop + clientHeight >= scrollHeight - endDistance;
    if (isAtEnd !== isFollowing && (isAtEnd || scrollTop < lastTop.current)) onFollowing(isAtEnd);
    lastTop.current = scrollTop;
  };

  const first = Math.max(0, Math.min(topRow, layout.rowCount - windowRows) - spareRows);
  const last = Math.min(layout.rowCount, topRow + windowRows + spareRows);
  return (
    // biome-ignore lint/a11y/noNoninteractiveTabindex: the keyboard must be able to scroll it
    <section className={styles.scroller} ref={scroller} onScroll={onScroll} tabIndex={0} aria-label={label}>
      <div className={styles.canvas} style={{ height: layout.rowCount * rowHeight }}>
        <div className={styles.rows} style={{ top: first * rowHeight }}>
          {range(first, last).map((row) => (
            <Row key={row} {...props} row={row} layout={layout} gutterWidth={gutterWidth} />
          ))}
        </div>
      </div>
    </section>
  );
}

const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, index) => from + index);

/** The width of the line numbers in characters; 0 if they are not known. */
function gutterOf({ firstNumber, lines }: LogBuffer): number {
  return firstNumber === undefined ? 0 : Math.max(4, String(firstNumber + lines.length).length) + 2;
}

/**
 * Follows the end. Otherwise the same line stays at the top, even when others are added or dropped before it, or the width of
 * the rows changes. Returns a function that takes the present position as the one to keep.
 */
function useKeptPosition(
  scroller: RefObject<HTMLElement | null>,
  { origin }: LogBuffer,
  layout: RowLayout,
  isFollowing: boolean,
): () => void {
  const kept = useRef({ line: 0, rest: 0 });
  const { rowCount } = layout;
  // biome-ignore lint/correctness/useExhaustiveDependencies: the layout is a new object each time, and its count tells
  useLayoutEffect(() => {
    const element = scroller.current;
    if (element === null) return;
    if (isFollowing) element.scrollTop = element.scrollHeight;
    else element.scrollTop = layout.rowOf(kept.current.line + origin) * rowHeight + kept.current.rest;
  }, [scroller, origin, rowCount, isFollowing]);
  return () => {
    const top = scroller.current?.scrollTop ?? 0;
    const line = layout.lineAt(Math.floor(top / rowHeight));
    kept.current = { line: line - origin, rest: top - layout.rowOf(line) * rowHeight };
  };
}

interface RowProps extends LogLinesProps {
  row: number;
  layout: RowLayout;
  gutterWidth: number;
}

function Row({ row, layout, gutterWidth, buffer, searchText, foundLine, markedNumber, lineHref, onLine }: RowProps) {
  const line = layout.lineAt(row);
  const number = buffer.firstNumber === undefined ? undefined : buffer.firstNumber + line;
  const isFirst = layout.rowOf(line) === row;
  const isMarked = number !== undefined && number === markedNumber;
  const className = `${styles.row} ${isMarked ? styles.marked : ''} ${line === foundLine ? styles.found : ''}`;
  return (
    <div className={className} aria-current={isMarked && isFirst ? 'true' : undefined}>
      {number !== undefined && (
        <span className={styles.gutter} style={{ width: `${gutterWidth}ch` }}>
          {isFirst && (
            // Not in the tab order, because there are thousands: the field "Line" is there for the keyboard.
            <a
              tabIndex={-1}
              href={lineHref(number)}
              aria-label={`Line ${number}`}
              onClick={(event) => {
                if (event.ctrlKey || event.metaKey || event.shiftKey) return;
                event.preventDefault();
                onLine(number);
              }}
            >
              {number}
            </a>
          )}
        </span>
      )}
      <span className={styles.text}>
        {splitAtMatches(layout.textAt(row), searchText).map((part, index) =>
          // biome-ignore lint/suspicious/noArrayIndexKey: the parts of a text have no other name
          index % 2 === 1 ? <mark key={index}>{part}</mark> : part,
        )}
      </span>
    </div>
  );
}
