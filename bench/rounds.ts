import { type Comparison, type Measurement, meetsThreshold, type Row } from './benchmark.ts';
import { type Summary, summarize } from './statistics.ts';

interface RoundOptions {
  benchmark: string;
  rounds: number;
  log(text: string): void;
}

/** Measures both sides alternately, so that other load on the machine affects both alike; each round gives one ratio. */
export async function compare({ benchmark, rounds, log }: RoundOptions, comparison: Comparison): Promise<Row> {
  const { scenario, baseline, unit, threshold } = comparison;
  const ours: number[] = [];
  const theirs: number[] = [];
  const ratios: number[] = [];
  // Neither side is measured before V8 has compiled its code.
  const warmUpRounds = rounds > 1 ? (comparison.warmUpRounds ?? 1) : 0;
  for (let round = 1; round <= warmUpRounds; round++) {
    log(`${scenario}: warm-up ${round} of ${warmUpRounds}`);
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
    log(`${scenario}: round ${round} of ${rounds}: ${(values.ours / values.theirs).toFixed(2)} × the baseline`);
  }
  const figure = summarize(ratios);
  const met = meetsThreshold(figure.median, threshold);
  const sides = { ours: summarize(ours), theirs: summarize(theirs) };
  return { benchmark, scenario, baseline, unit, ...sides, figure, figureUnit: '×', threshold, met };
}

export async function measure({ benchmark, rounds, log }: RoundOptions, measurement: Measurement): Promise<Row> {
  const { scenario, baseline, unit, threshold, aggregate } = measurement;
  const values: number[] = [];
  for (let round = 1; round <= rounds; round++) {
    const value = await measurement.ours();
    values.push(value);
    log(`${scenario}: round ${round} of ${rounds}: ${value.toFixed(2)} ${unit}`);
  }
  const ours = summarize(values);
  const figure: Summary = aggregate === undefined ? ours : { ...ours, median: aggregate() };
  const met = meetsThreshold(figure.median, threshold);
  return { benchmark, scenario, baseline, unit, ours, theirs: null, figure, figureUnit: unit, threshold, met };
}
