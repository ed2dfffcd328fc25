import type { ChargeUnit } from './accounting/charge.ts';

/** A number for people, with at most three digits that matter: 4,980 · 12.5 · 0.25. The same in every locale. */
export function formatNumber(value: number): string {
  // A small negative number becomes "0", not "-0".
  return value.toLocaleString('en', { maximumSignificantDigits: 3, signDisplay: 'negative' });
}

const chargePrefixes: Record<ChargeUnit, string> = { core: 'core-', node: 'node-', wall: '' };

/** Charged seconds in the unit of the system: 24 core-h · 6 core-min · 12 core-s. */
export function formatCharge(seconds: number, charge: ChargeUnit): string {
  const prefix = chargePrefixes[charge];
  const size = Math.abs(seconds);
  if (size >= 3600 || size === 0) return `${formatNumber(seconds / 3600)} ${prefix}h`;
  return size < 60 ? `${formatNumber(seconds)} ${prefix}s` : `${formatNumber(seconds / 60)} ${prefix}min`;
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** 723 B · 35.6 kB · 10 GB. */
export function formatBytes(bytes: number): string {
  // The first unit in which the rounded number is below a thousand.
  const fits = (power: number) => Math.abs(Number((bytes / 1000 ** power).toPrecision(3))) < 1000;
  const found = byteUnits.findIndex((_, power) => fits(power));
  const power = found === -1 ? byteUnits.length - 1 : found;
  return `${formatNumber(bytes / 1000 ** power)} ${byteUnits[power]}`;
}

/** An amount of the ledger, in seconds or bytes. */
export function formatAmount(resource: 'time' | 'space', amount: number, charge: ChargeUnit): string {
  return resource === 'time' ? formatCharge(amount, charge) : formatBytes(amount);
}

/** Hours of a runtime, never more than they are: a longer runtime may not fit. */
export function formatRuntime(hours: number): string {
  if (hours <= 0) return '0 h';
  const unit = 10 ** (Math.floor(Math.log10(hours)) - 2);
  // 0.57 / 0.001 is a little less than 570.
  return `${formatNumber(Math.floor(Number((hours / unit).toPrecision(12))) * unit)} h`;
}
