import { usageError } from '../errors.ts';

const unitMs: Record<string, number> = { m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

/** Parses "90m", "12h", "7d" or "2w" before now, or a date. Returns an ISO 8601 time. */
export function parseSince(text: string, nowMs: number): string {
  return parseTime(text, nowMs, -1, 'ago');
}

/** Parses "90m", "12h", "7d" or "2w" from now, or a date. Returns an ISO 8601 time. */
export function parseUntil(text: string, nowMs: number): string {
  return parseTime(text, nowMs, 1, 'from now');
}

function parseTime(text: string, nowMs: number, direction: 1 | -1, description: string): string {
  const [, amount, unit = ''] = /^(\d{1,5})([mhdw])$/.exec(text) ?? [];
  // Date.parse takes "7" for a month of 2001.
  const date = /^\d{4}-\d\d-\d\d/.test(text) ? Date.parse(text) : Number.NaN;
  const time = amount === undefined ? date : nowMs + direction * Number(amount) * (unitMs[unit] ?? 0);
  if (Number.isNaN(time))
    throw usageError(`"${text}" is not a time.`, `Write 90m, 12h, 7d or 2w ${description}, or a date: 2026-01-31`);
  return new Date(time).toISOString();
}
