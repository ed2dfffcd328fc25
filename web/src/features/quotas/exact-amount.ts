import { type ChargeUnit, type Resource, timeUnitOf } from '../../shared/amount.ts';

const decimals = (count: number) =>
  new Intl.NumberFormat('en', { minimumFractionDigits: count, maximumFractionDigits: count });
const formats = { two: decimals(2), three: decimals(3), four: decimals(4) };

export interface AmountFormat {
  unit: string;
  format: (amount: number) => string;
}

/**
 * Formats the movements of a statement, with all their digits, so that they add up: hours with four decimals tell every second apart, unless all amounts
 * are multiples of 36 seconds. Space is shown in MB with all its KB.
 */
export function exactFormat(resource: Resource, charge: ChargeUnit, amounts: readonly number[]): AmountFormat {
  // A minus sign is as wide as a plus sign, and is not taken for a hyphen.
  const withMinus = (text: string) => text.replace('-', '−');
  if (resource === 'space') return { unit: 'MB', format: (amount) => withMinus(formats.three.format(amount / 1000)) };
  const hours = amounts.every((amount) => amount % 36 === 0) ? formats.two : formats.four;
  return { unit: timeUnitOf(charge), format: (amount) => withMinus(hours.format(amount / 3600)) };
}

/** With its sign: +12.50, −3.00. */
export function formatChange(format: AmountFormat['format'], change: number): string {
  if (change === 0) return format(0);
  return `${change > 0 ? '+' : '−'}${format(Math.abs(change))}`;
}
