import { BursarError } from '../../../domain/errors.ts';
import { msPerDay, msPerHour } from '../../../domain/units.ts';

const msPerYear = 365 * msPerDay;
const unitMs: Record<string, number> = { m: 60_000, h: msPerHour, d: msPerDay, w: 7 * msPerDay, y: msPerYear };
const maxDurationMs = 100 * msPerYear;

/** Parses `90m`, `12h`, `30d`, `52w` or `1y` to milliseconds. */
export function parseDurationMs(text: string): number {
  const [, amount = '', unit = ''] = /^(\d{1,6})([mhdwy])$/.exec(text) ?? [];
  const ms = Number(amount) * (unitMs[unit] ?? 0);
  if (ms === 0 || ms > maxDurationMs) {
    const hint = 'Write it as 90m, 12h, 30d, 52w or 1y, up to 100 years.';
    throw new BursarError('invalid_argument', `"${text}" is not a duration. ${hint}`);
  }
  return ms;
}
