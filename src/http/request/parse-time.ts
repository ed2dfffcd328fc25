import { BursarError } from '../../domain/errors.ts';

const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

export const timeExample = '2026-01-31 or 2026-01-31T12:00:00Z';

/** Parses an ISO 8601 date or time into epoch milliseconds. Undefined if it is not valid. */
export function parseQueryTime(text: string): number | undefined {
  const at = isoTime.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) return undefined;
  // Date.parse accepts the 31st of February and returns the 3rd of March.
  const day = text.slice(0, 10);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? at : undefined;
}

/** Parses an end of a range of times, for an object that lacks it if the query does. */
export function parseRangeTime(name: 'from' | 'to', text: string | undefined) {
  if (text === undefined) return {};
  const at = parseQueryTime(text);
  if (at === undefined) throw new BursarError('bad_request', `"${name}" is not a time. Write it as ${timeExample}.`);
  return { [name]: at };
}
