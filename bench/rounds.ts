import { type Comparison, type Measurement, meetsBar, type Row } from './benchmark.ts';
import { type Summary, summarize } from './statistics.ts';

interface RoundOptions {
  benchmark: string;
  rounds: number;
  log(text: string): void;
}

/** Measures both sides alternately, so that other load on the machine affects both alike; each round gives one ratio. */
export async function compare({ benchmark, rounds, log: say }: RoundOptions, comparison: Comparison): Promise<Row> {
  const { what, yardstick, unit, bar } = comparison;
  const ours: number[] = [];
  const theirs: number[] = [];
  const ratios: number[] = [];
  // Neither side is measured before V8 has compiled its code.
  const warmUpRounds = rounds > 1 ? (comparison.warmUpRounds ?? 1) : 0;
  for (let round = 1; round <= warmUpRounds; round++) {
    say(`${what}: warm-up ${round} of ${warmUpRounds}`);
    for (const side of [comparison.theirs, comparison.ours]) await side();
  }
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that neither side always runs in the state that the other one left.
    const sides = round % 2 === 1 ? (['theirs', 'ours'] as const) : (['ours', 'theirs'] as const);
    const values = { ours: 0, theirs: 0 };
    for (const side of sides) values[side] = await comparison[side]();
    ours.push(values.ours);
    theirs.push(values.theirs);
    ratios.push(values.ours / values.theirs);
    say(`${what}: round ${round} of ${rounds}: ${(values.ours / values.theirs).toFixed(2)} × the yardstick`);
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
