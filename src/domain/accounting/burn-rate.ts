import { msPerDay } from '../units.ts';

export interface BurnRate {
  /** Average use per day. */
  perDay: number;
  /** Epoch milliseconds at which the balance reaches zero at this rate; null if it never does. */
  runsOutAt: number | null;
}

/** A forecast of more than a century counts as "never runs out". */
const maxForecastDays = 36_500;

/** `used` is the use between `since` and `now`; a span of less than a day counts as one day. */
export function calculateBurnRate(used: number, since: number, now: number, remaining: number): BurnRate {
  const days = Math.max(1, (now - since) / msPerDay);
  const perDay = used / days;
  if (perDay <= 0) return { perDay: 0, runsOutAt: null };
  const daysLeft = Math.max(0, remaining) / perDay;
  return { perDay, runsOutAt: daysLeft > maxForecastDays ? null : now + Math.round(daysLeft * msPerDay) };
}
