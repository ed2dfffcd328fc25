import type { Statement } from '@bursar/client';
import type { Resource } from '../../shared/amount.ts';
import { toDay } from '../../ui/days.ts';
import type { PlotProps } from '../../ui/plot-options.ts';
import type { Movement } from './movement-kinds.ts';

const secondsOf = (time: string) => Date.parse(time) / 1000;

/** A forecast is drawn for at most as long as the time before it, so that the past stays readable. */
const maxForecastRatio = 1;

/** The balance as steps and, if the statement ends today, the straight line to the day on which the time runs out. */
export function burnDownOf(
  statement: Statement,
  resource: Resource,
): Required<Pick<PlotProps, 'times' | 'series' | 'marks'>> {
  const account = statement[resource];
  // Time is drawn in hours, so that the axis has round numbers.
  const scale = resource === 'time' ? 1 / 3600 : 1;
  const end = secondsOf(statement.to);
  const first = account.movements[0];
  const start = account.opening_balance === 0 && first !== undefined ? secondsOf(first.at) : secondsOf(statement.from);
  const points: [time: number, balance: number][] = [
    [start, account.opening_balance],
    ...account.movements.map(({ at, balance }): [number, number] => [secondsOf(at), balance]),
    [end, account.closing_balance],
  ];
  const times = points.map(([time]) => time);
  const balances: (number | null)[] = points.map(([, balance]) => balance * scale);
  const isCurrent = Math.abs(end - Date.now() / 1000) < 2 * 86_400;
  const marks = isCurrent ? [{ time: end, label: 'Today' }] : [];
  const label = 'Balance';
  if (resource === 'space' || !isCurrent || statement.time.runs_out_at === null) {
    return { times, series: [{ label, values: balances, form: 'steps' }], marks };
  }
  const runsOut = secondsOf(statement.time.runs_out_at);
  const lastTime = Math.min(runsOut, end + Math.max(86_400, (end - start) * maxForecastRatio));
  const lastBalance = runsOut <= end ? 0 : account.closing_balance * (1 - (lastTime - end) / (runsOut - end));
  const forecast: (number | null)[] = times.map((_time, index) =>
    index === times.length - 1 ? (balances.at(-1) ?? 0) : null,
  );
  return {
    times: [...times, lastTime],
    series: [
      { label, values: [...balances, null], form: 'steps' },
      { label: 'At the present rate', values: [...forecast, lastBalance * scale], form: 'dashes' },
    ],
    marks: lastTime === runsOut ? [...marks, { time: runsOut, label: 'Runs out' }] : marks,
  };
}

interface DayBalance {
  day: string;
  used: number;
  balance: number;
}

/** The use and the last balance of each day that has movements, newest first. */
export function dailyBalances(movements: readonly Movement[]): DayBalance[] {
  const days = new Map<string, DayBalance>();
  for (const { at, used, balance } of movements) {
    const day = toDay(new Date(at));
    days.set(day, { day, used: (days.get(day)?.used ?? 0) + used, balance });
  }
  return [...days.values()].reverse();
}
