import type { AccountBalance } from './settlement.ts';

/** Shares of an account, in percent, whose use is announced. */
const thresholds = [100, 80] as const;

export type Threshold = 0 | (typeof thresholds)[number];

/** The highest threshold that the use of an account has reached. Holds do not count: they may come back. */
export function thresholdReached({ granted, posted, overrun }: AccountBalance): Threshold {
  const used = posted + overrun;
  if (used === 0) return 0;
  return thresholds.find((percent) => used * 100 >= granted * percent) ?? 0;
}
