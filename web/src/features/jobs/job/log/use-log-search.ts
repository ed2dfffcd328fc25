import { useDeferredValue, useMemo, useState } from 'react';
import type { LogReader } from './log-reader.ts';
import { createLogSearch } from './log-search.ts';

export interface LogSearchState {
  /** The text of the field. */
  typed: string;
  /** The text that was searched, which follows when there is time. */
  text: string;
  setText: (text: string) => void;
  matchCount: number;
  /** The number of the current match, from 1 on; 0 if none was shown yet. */
  position: number;
  foundLine: number | undefined;
  next: () => void;
  previous: () => void;
}

/** Searches the lines that were read. The search begins at the lines on the screen. */
export function useLogSearch(
  { buffer }: LogReader,
  version: number,
  topLine: () => number,
  show: (index: number) => void,
): LogSearchState {
  const [typed, setTyped] = useState('');
  const text = useDeferredValue(typed);
  const [position, setPosition] = useState(0);
  const search = useMemo(() => (text === '' ? undefined : createLogSearch(text)), [text]);
  // biome-ignore lint/correctness/useExhaustiveDependencies: the lines change in place, and the version tells
  const matches = useMemo(() => search?.update(buffer.lines, buffer.origin) ?? [], [search, buffer, version]);

  const go = (wanted: number) => {
    if (matches.length === 0) return;
    const index = (wanted + matches.length) % matches.length;
    setPosition(index + 1);
    show(matches[index] ?? 0);
  };
  const firstFromTop = () => {
    const top = topLine();
    const index = matches.findIndex((line) => line >= top);
    return index === -1 ? 0 : index;
  };
  return {
    typed,
    text,
    setText: (value) => {
      setTyped(value);
      setPosition(0);
    },
    matchCount: matches.length,
    position,
    foundLine: position === 0 ? undefined : matches[position - 1],
    next: () => go(position === 0 ? firstFromTop() : position),
    previous: () => go(position === 0 ? firstFromTop() - 1 : position - 2),
  };
}
