const units: Record<string, number> = { s: 1 / 3600, m: 1 / 60, h: 1, d: 24 };

/** Reads hours (`1.5`), `1:30`, `90 min`, `2 h`, `1 d`. Null if it is not a time. */
export function parseRuntime(text: string): number | null {
  const [, hours, minutes, seconds = '0'] = /^\s*(\d+):([0-5]\d)(?::([0-5]\d))?\s*$/.exec(text) ?? [];
  if (hours !== undefined) return floor(Number(hours) + Number(minutes) / 60 + Number(seconds) / 3600);
  const match = /^\s*(\d+(?:[.,]\d+)?|[.,]\d+)\s*(s|sec|seconds?|m|min|minutes?|h|hours?|d|days?)?\s*$/i.exec(text);
  if (match === null) return null;
  const [, amount = '', unit = 'h'] = match;
  return floor(Number(amount.replace(',', '.')) * (units[unit.charAt(0).toLowerCase()] ?? 1));
}

/** Cuts the decimals that people do not read. Never rounds up: every second that has begun is charged. */
function floor(hours: number): number {
  return Math.floor(Number((hours * 1e6).toFixed(3))) / 1e6;
}

/** Hours as the user would type them. Rounds down to four digits after the point. */
export const formatHours = (hours: number) => String(Math.floor(hours * 1e4) / 1e4);
