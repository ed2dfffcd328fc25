export interface BurnRate {
  /** What is used a day, on average, over the days looked at. */
  perDay: number;
  /** When it runs out at that rate; null when it does not. */
  runsOutAt: number | null;
}

const dayMs = 86_400_000;
/** Beyond a century it does not run out. */
const mostDays = 36_500;

/** How fast something is used up: `used` in the time from `since` to `now`, with so much `left`. */
export function burnRate(used: number, since: number, now: number, left: number): BurnRate {
  const days = Math.max(1, (now - since) / dayMs);
  const perDay = used / days;
  if (perDay <= 0) return { perDay: 0, runsOutAt: null };
  const daysLeft = Math.max(0, left) / perDay;
  return { perDay, runsOutAt: daysLeft > mostDays ? null : now + Math.round(daysLeft * dayMs) };
}
