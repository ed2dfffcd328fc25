const isoTime = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,9})?)?(Z|[+-]\d{2}:\d{2}))?$/;

export const timeExample = '2026-01-31 or 2026-01-31T12:00:00Z';

/** A time in a query, as epoch milliseconds; undefined for what is none. */
export function parseTime(text: string): number | undefined {
  const at = isoTime.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(at)) return undefined;
  // Date.parse takes the 31st of February for the 3rd of March.
  const day = text.slice(0, 10);
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? at : undefined;
}
