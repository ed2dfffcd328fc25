import type { AccountBalance } from './settlement.ts';

/** Percentages of a grant at which users are notified, highest first. */
const thresholds = [100, 80] as const;

export type Threshold = 0 | (typeof thresholds)[number];

/** The highest threshold that usage has reached. Holds do not count, because they may be released. */
export function thresholdReached({ granted, posted, overrun }: AccountBalance): Threshold {
  const used = posted + overrun;
  if (used === 0) return 0;
  return thresholds.find((percent) => used * 100 >= granted * percent) ?? 0;
}
