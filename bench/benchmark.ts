import type { LoadGenerator } from './load.ts';
import type { Size } from './size.ts';
import type { Summary } from './statistics.ts';

/** What a figure is held to. An aim is reported, and never missed. */
export type Bar = { atLeast: number } | { atMost: number } | { equalWithin: number } | { aim: number };

/** One line of the table. */
export interface Row {
  benchmark: string;
  what: string;
  yardstick: string;
  /** Of `ours` and `theirs`. */
  unit: string;
  ours: Summary;
  /** The yardstick, measured in the same rounds; null where it is not something to be measured. */
  theirs: Summary | null;
  /** What is held to the bar, in its unit; `×` is how many times the yardstick. */
  figure: Summary;
  figureUnit: '×' | 'MB' | 's';
  bar: Bar;
  met: boolean;
}

/** What a benchmark is given. */
export interface Bench {
  size: Size;
  loadGenerator: LoadGenerator;
  /** Where every server under test leaves a profile of its processor time when it stops; undefined for nowhere. */
  profileFolder: string | undefined;
  /** Tells what is going on. */
  log(text: string): void;
  /** Something to be undone when the benchmark is over, however it ends; the last first. */
  defer(undo: () => Promise<unknown> | unknown): void;
  /** Measures both in turn, round by round, and adds the row of their ratio. */
  compare(comparison: Comparison): Promise<void>;
  /** Measures round by round, and adds the row of what was measured. */
  measure(measurement: Measurement): Promise<void>;
}

interface RowDescription {
  what: string;
  yardstick: string;
  bar: Bar;
}

export interface Comparison extends RowDescription {
  unit: string;
  ours(): Promise<number>;
  theirs(): Promise<number>;
  /** How many rounds come before those that count; one, unless there is much code, which is rarely run. */
  warmUpRounds?: number;
}

export interface Measurement extends RowDescription {
  unit: 'MB' | 's';
  ours(): Promise<number>;
  /** What is held to the bar, of all rounds; their median otherwise. */
  aggregate?(sorted: readonly number[]): number;
}

export interface Benchmark {
  name: string;
  /** The real servers that it cannot do without, by their names in `scripts/peers.ts`. */
  peers?: readonly string[];
  run(bench: Bench): Promise<void>;
}

export function meetsBar(value: number, bar: Bar): boolean {
  if ('atLeast' in bar) return value >= bar.atLeast;
  if ('atMost' in bar) return value <= bar.atMost;
  if ('equalWithin' in bar) return Math.abs(value - 1) <= bar.equalWithin;
  return true;
}
