import type { LoadGenerator } from './load.ts';
import type { Size } from './size.ts';
import type { Summary } from './statistics.ts';

/** The required value of a figure. An `aim` is reported but never fails the run. */
export type Threshold = { atLeast: number } | { atMost: number } | { equalWithin: number } | { aim: number };

export type MeasuredUnit = 'MB' | 's' | 'ms' | '% CPU' | 'events';

/** One row of the result table. */
export interface Row {
  benchmark: string;
  scenario: string;
  baseline: string;
  /** Unit of `ours` and `theirs`. */
  unit: string;
  ours: Summary;
  /** The baseline, measured in the same rounds; null if the baseline is not measured. */
  theirs: Summary | null;
  /** The value that is compared with the threshold; the unit `×` is the ratio to the baseline. */
  figure: Summary;
  figureUnit: '×' | MeasuredUnit;
  threshold: Threshold;
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
  /** Registers a cleanup that runs after the benchmark, even if it fails; the last one registered runs first. */
  defer(cleanup: () => Promise<unknown> | unknown): void;
  /** Creates a folder that is deleted after the benchmark. */
  temporaryFolder(name: string): string;
  /** Measures both sides alternately in each round, and adds the row of their ratio. */
  compare(comparison: Comparison): Promise<void>;
  /** Like `compare`, for several figures of the same rounds: adds a row for each. */
  compareFigures(comparison: FiguresComparison): Promise<void>;
  /** Measures one side in each round, and adds the row of its values. */
  measure(measurement: Measurement): Promise<void>;
  /** Like `measure`, for several figures of the same rounds: adds a row for each. */
  measureFigures(measurement: FiguresMeasurement): Promise<void>;
}

export interface RowDescription {
  scenario: string;
  baseline: string;
  threshold: Threshold;
}

export interface Comparison extends RowDescription {
  unit: string;
  ours(): Promise<number>;
  theirs(): Promise<number>;
  /** Number of unmeasured rounds before the measured ones; default 1. Code paths that V8 compiles late need more. */
  warmUpRounds?: number;
  /** Default: those of the size. */
  rounds?: number;
}

/** Both sides return one value for each row. */
export interface FiguresComparison extends Pick<Comparison, 'warmUpRounds' | 'rounds'> {
  rows: readonly (RowDescription & { unit: string })[];
  ours(): Promise<readonly number[]>;
  theirs(): Promise<readonly number[]>;
}

export interface Measurement extends RowDescription {
  unit: MeasuredUnit;
  ours(): Promise<number>;
  /** Computes the value to compare with the threshold, after all rounds; default: the median. */
  aggregate?(): number;
}

export interface FiguresMeasurement {
  rows: readonly (RowDescription & { unit: MeasuredUnit })[];
  ours(): Promise<readonly number[]>;
  /** Default: those of the size. A soak has one. */
  rounds?: number;
}

export interface Benchmark {
  name: string;
  /** Names from `scripts/external-software.ts`. */
  requires?: readonly string[];
  run(bench: Bench): Promise<void>;
}

export function meetsThreshold(value: number, threshold: Threshold): boolean {
  if ('atLeast' in threshold) return value >= threshold.atLeast;
  if ('atMost' in threshold) return value <= threshold.atMost;
  if ('equalWithin' in threshold) return Math.abs(value - 1) <= threshold.equalWithin;
  return true;
}
