const units = [
  ['d', 86_400],
  ['h', 3_600],
  ['min', 60],
  ['s', 1],
] as const;

/** Formats a time as people say it: "3 min ago", "in 2 h". */
export function relativeTime(time: string | number, nowMs: number): string {
  const seconds = (new Date(time).getTime() - nowMs) / 1000;
  if (Math.abs(seconds) < 1) return 'now';
  const text = largestUnit(Math.abs(seconds));
  return seconds < 0 ? `${text} ago` : `in ${text}`;
}

function largestUnit(seconds: number): string {
  const [unit, size] = units.find(([, length]) => seconds >= length) ?? ['s', 1];
  return `${Math.floor(seconds / size)} ${unit}`;
}

/** Formats a duration in whole seconds with its two largest units: "1 h 5 min". Five minutes are 0.083333 h, or 299.9988 s. */
export function formatDuration(exactSeconds: number): string {
  const seconds = Math.round(exactSeconds);
  if (seconds < 1) return '0 s';
  const index = units.findIndex(([, size]) => seconds >= size);
  const [unit, size] = units[index] ?? ['s', 1];
  const rest = seconds % size;
  const [smallerUnit, smallerSize] = units[index + 1] ?? ['', 0];
  const smaller = smallerSize === 0 ? 0 : Math.floor(rest / smallerSize);
  return `${Math.floor(seconds / size)} ${unit}${smaller > 0 ? ` ${smaller} ${smallerUnit}` : ''}`;
}

/** Formats a number of things, or an amount of the ledger, which must add up: "4,976". The same in every locale. */
export function formatExactNumber(value: number): string {
  // A small negative number becomes "0", not "-0".
  return value.toLocaleString('en-US', { maximumFractionDigits: 1, signDisplay: 'negative' });
}
