import {
  type Comparison,
  type FiguresComparison,
  type FiguresMeasurement,
  type Measurement,
  meetsThreshold,
  type Row,
} from './benchmark.ts';
import { type Summary, summarize } from './statistics.ts';

interface RoundOptions {
  benchmark: string;
  rounds: number;
  log(text: string): void;
}

export async function compare(options: RoundOptions, comparison: Comparison): Promise<Row[]> {
  const { ours, theirs, ...settings } = comparison;
  const sides = { ours: async () => [await ours()], theirs: async () => [await theirs()] };
  return await compareFigures(options, { rows: [comparison], ...settings, ...sides });
}

/** Measures both sides alternately, so that other load on the machine affects both alike; each round gives one ratio. */
export async function compareFigures(
  { benchmark, log, ...options }: RoundOptions,
  { rows, ours, theirs, warmUpRounds = 1, rounds = options.rounds }: FiguresComparison,
): Promise<Row[]> {
  const [{ scenario: firstScenario } = { scenario: '' }] = rows;
  const measured = { ours: [] as (readonly number[])[], theirs: [] as (readonly number[])[] };
  // Neither side is measured before V8 has compiled its code.
  const warmUps = rounds > 1 ? warmUpRounds : 0;
  for (let round = 1; round <= warmUps; round++) {
    log(`${firstScenario}: warm-up ${round} of ${warmUps}`);
    for (const side of [theirs, ours]) await side();
  }
  for (let round = 1; round <= rounds; round++) {
    // The order alternates, so that neither side always runs in the state that the other one left.
    const sides = round % 2 === 1 ? (['theirs', 'ours'] as const) : (['ours', 'theirs'] as const);
    for (const side of sides) measured[side].push(await { ours, theirs }[side]());
    for (const [index, { scenario }] of rows.entries()) {
      const [our, their] = [measured.ours.at(-1)?.[index] ?? 0, measured.theirs.at(-1)?.[index] ?? 0];
      log(`${scenario}: round ${round} of ${rounds}: ${(our / their).toFixed(2)} × the baseline`);
    }
  }
  return rows.map(({ scenario, baseline, unit, threshold }, index) => {
    const our = pickFigure(measured.ours, index);
    const their = pickFigure(measured.theirs, index);
    const figure = summarize(our.map((value, round) => value / (their[round] ?? Number.NaN)));
    const met = meetsThreshold(figure.median, threshold);
    const sides = { ours: summarize(our), theirs: summarize(their) };
    return { benchmark, scenario, baseline, unit, ...sides, figure, figureUnit: '×', threshold, met };
  });
}

export async function measure(options: RoundOptions, measurement: Measurement): Promise<Row[]> {
  const { ours, aggregate } = measurement;
  const rows = await measureFigures(options, { rows: [measurement], ours: async () => [await ours()] });
  if (aggregate === undefined) return rows;
  return rows.map((row) => {
    const figure: Summary = { ...row.figure, median: aggregate() };
    return { ...row, figure, met: meetsThreshold(figure.median, row.threshold) };
  });
}

export async function measureFigures(options: RoundOptions, measurement: FiguresMeasurement): Promise<Row[]> {
  const { benchmark, log } = options;
  const { rows, ours, rounds = options.rounds } = measurement;
  const measured: (readonly number[])[] = [];
  for (let round = 1; round <= rounds; round++) {
    const values = await ours();
    measured.push(values);
    for (const [index, { scenario, unit }] of rows.entries())
      log(`${scenario}: round ${round} of ${rounds}: ${values[index]?.toFixed(2)} ${unit}`);
  }
  return rows.map(({ scenario, baseline, unit, threshold }, index) => {
    const figure = summarize(pickFigure(measured, index));
    const met = meetsThreshold(figure.median, threshold);
    return {
      benchmark,
      scenario,
      baseline,
      unit,
      ours: figure,
      theirs: null,
      figure,
      figureUnit: unit,
      threshold,
      met,
    };
  });
}

const pickFigure = (rounds: readonly (readonly number[])[], index: number) =>
  rounds.map((values) => values[index] ?? Number.NaN);
