import { type Comparison, type Measurement, meetsBar, type Row } from './benchmark.ts';
import { type Summary, summarize } from './statistics.ts';

interface RoundOptions {
  benchmark: string;
  rounds: number;
  log(text: string): void;
}

/** Both sides in turn, so that what else the machine does hits them alike; each round gives one ratio. */
export async function compare({ benchmark, rounds, log: say }: RoundOptions, comparison: Comparison): Promise<Row> {
  const { what, yardstick, unit, bar } = comparison;
  const ours: number[] = [];
  const theirs: number[] = [];
  const ratios: number[] = [];
  // Neither side is measured while it is still being compiled.
  const unmeasured = rounds > 1 ? (comparison.warmUpRounds ?? 1) : 0;
  for (let round = 1; round <= unmeasured; round++) {
    say(`${what}: getting warm, ${round} of ${unmeasured}`);
    for (const side of [comparison.theirs, comparison.ours]) await side();
  }
  for (let round = 1; round <= rounds; round++) {
    // Who goes first changes, so that neither always finds what the other one left.
    const sides = round % 2 === 1 ? (['theirs', 'ours'] as const) : (['ours', 'theirs'] as const);
    const got = { ours: 0, theirs: 0 };
    for (const side of sides) got[side] = await comparison[side]();
    ours.push(got.ours);
    theirs.push(got.theirs);
    ratios.push(got.ours / got.theirs);
    say(`${what}: round ${round} of ${rounds}: ${(got.ours / got.theirs).toFixed(2)} × the yardstick`);
  }
  const figure = summarize(ratios);
  const met = meetsBar(figure.median, bar);
  const sides = { ours: summarize(ours), theirs: summarize(theirs) };
  return { benchmark, what, yardstick, unit, ...sides, figure, figureUnit: '×', bar, met };
}

export async function measure({ benchmark, rounds, log: say }: RoundOptions, measurement: Measurement): Promise<Row> {
  const { what, yardstick, unit, bar, aggregate: verdictOf } = measurement;
  const values: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    const value = await measurement.ours();
    values.push(value);
    say(`${what}: round ${round} of ${rounds}: ${value.toFixed(2)} ${unit}`);
  }
  const ours = summarize(values);
  const sorted = [...values].sort((a, b) => a - b);
  const figure: Summary = verdictOf === undefined ? ours : { ...ours, median: verdictOf(sorted) };
  const met = meetsBar(figure.median, bar);
  return { benchmark, what, yardstick, unit, ours, theirs: null, figure, figureUnit: unit, bar, met };
}
