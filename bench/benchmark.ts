import type { LoadGenerator } from './load.ts';
import type { Size } from './size.ts';
import type { Summary } from './statistics.ts';

/** The requirement on a figure. An `aim` is reported but never fails the run. */
export type Bar = { atLeast: number } | { atMost: number } | { equalWithin: number } | { aim: number };

/** One row of the result table. */
export interface Row {
  benchmark: string;
  what: string;
  yardstick: string;
  /** Unit of `ours` and `theirs`. */
  unit: string;
  ours: Summary;
  /** The yardstick, measured in the same rounds; null if the yardstick is not measured. */
  theirs: Summary | null;
  /** The value that is compared with the bar; the unit `×` is the ratio to the yardstick. */
  figure: Summary;
  figureUnit: '×' | 'MB' | 's';
  bar: Bar;
  met: boolean;
}

/** The context that a benchmark runs in. */
export interface Bench {
  size: Size;
  loadGenerator: LoadGenerator;
  /** Folder to which every server under test writes a CPU profile when it stops; undefined for no profiles. */
  profileFolder: string | undefined;
  /** Logs progress. */
  log(text: string): void;
  /** Registers a cleanup that runs after the benchmark, also if it fails; the last one registered runs first. */
  defer(cleanup: () => Promise<unknown> | unknown): void;
  /** Creates a folder that is deleted after the benchmark. */
  temporaryFolder(name: string): string;
  /** Measures both sides alternately in each round, and adds the row of their ratio. */
  compare(comparison: Comparison): Promise<void>;
  /** Measures one side in each round, and adds the row of its values. */
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
  /** Number of unmeasured rounds before the measured ones; default 1. Code paths that V8 compiles late need more. */
  warmUpRounds?: number;
}

export interface Measurement extends RowDescription {
  unit: 'MB' | 's';
  ours(): Promise<number>;
  /** Computes the value to compare with the bar from the sorted values of all rounds; default: the median. */
  aggregate?(sorted: readonly number[]): number;
}

export interface Benchmark {
  name: string;
  /** The external servers that it requires, by their names in `scripts/peers.ts`. */
  peers?: readonly string[];
  run(bench: Bench): Promise<void>;
}

export function meetsBar(value: number, bar: Bar): boolean {
  if ('atLeast' in bar) return value >= bar.atLeast;
  if ('atMost' in bar) return value <= bar.atMost;
  if ('equalWithin' in bar) return Math.abs(value - 1) <= bar.equalWithin;
  return true;
}
