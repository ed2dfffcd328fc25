/** A value of the query of the page as text. The router parses numbers, and anybody can write anything into the address. */
export function textOf(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value);
  return typeof value === 'string' && value !== '' ? value : undefined;
}

/** A day, such as 2026-01-31, as text. */
export function dayOf(value: unknown): string | undefined {
  const text = textOf(value);
  return text !== undefined && /^[12]\d{3}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text))
    ? text
    : undefined;
}

export function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' && Number.isFinite(value) ? value : undefined;
}
