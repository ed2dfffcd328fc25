/** What several rounds gave: the one in the middle, and how far they lie apart. */
export interface Summary {
  median: number;
  min: number;
  max: number;
}

export function summarize(values: readonly number[]): Summary {
  const sorted = [...values].sort((a, b) => a - b);
  return { median: quantile(sorted, 0.5), min: sorted.at(0) ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN };
}

/** Of sorted values; between two of them it is interpolated. */
export function quantile(sorted: readonly number[], share: number): number {
  const position = (sorted.length - 1) * share;
  const below = sorted[Math.floor(position)] ?? Number.NaN;
  const above = sorted[Math.ceil(position)] ?? Number.NaN;
  return below + (above - below) * (position - Math.floor(position));
}
