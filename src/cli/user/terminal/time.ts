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

/** Formats a number of bytes: "1.4 MB". */
export function formatBytes(bytes: number): string {
  if (bytes < 1000) return `${bytes} B`;
  const names = ['kB', 'MB', 'GB', 'TB', 'PB'];
  // The first unit in which the rounded number has fewer than four digits.
  const power = names.findIndex((_, index) => Math.round(bytes / 1000 ** (index + 1)) < 1000);
  const index = power === -1 ? names.length - 1 : power;
  const value = bytes / 1000 ** (index + 1);
  return `${value < 9.95 ? value.toFixed(1) : Math.round(value)} ${names[index]}`;
}

/** Formats a number with separators between thousands, the same in every locale: "4,976". */
export function formatNumber(value: number): string {
  // A small negative number becomes "0", not "-0".
  return value.toLocaleString('en-US', { maximumFractionDigits: 1, signDisplay: 'negative' });
}
