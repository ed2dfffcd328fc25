/** A local day as in a date field: 2026-01-31. */
export function toDay(date: Date): string {
  const parts = [date.getFullYear(), date.getMonth() + 1, date.getDate()];
  return parts.map((part) => String(part).padStart(2, '0')).join('-');
}

/** The local midnight at which a day begins. */
export const startOfDay = (day: string) => new Date(`${day}T00:00:00`);

/** The day this many days later. The clock may change in between, so that days are not counted in hours. */
export function addDays(day: string, count: number): string {
  const date = startOfDay(day);
  date.setDate(date.getDate() + count);
  return toDay(date);
}

export const today = () => toDay(new Date());
