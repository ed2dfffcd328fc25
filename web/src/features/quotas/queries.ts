import { keepPreviousData, queryOptions } from '@tanstack/react-query';
import { bursar } from '../../client/bursar.ts';
import { keys } from '../../client/queries.ts';
import { addDays, startOfDay, today } from '../../ui/days.ts';

export interface StatementRange {
  hpc: string;
  project: string;
  /** The first day; undefined for the first movement. */
  from: string | undefined;
  /** The last day; undefined for now. */
  to: string | undefined;
}

/** The limits of a range of days, as the API takes them: `to` is the first moment after it. */
export function limitsOf({ from, to }: Pick<StatementRange, 'from' | 'to'>) {
  return {
    ...(from === undefined ? {} : { from: startOfDay(from).toISOString() }),
    ...(to === undefined ? {} : { to: startOfDay(addDays(to, 1)).toISOString() }),
  };
}

export const statementQuery = (range: StatementRange) =>
  queryOptions({
    queryKey: [...keys.statements, range.hpc, range.project, range.from, range.to],
    queryFn: ({ signal }) => bursar.statement({ hpc: range.hpc, project: range.project, ...limitsOf(range), signal }),
    placeholderData: keepPreviousData,
  });

/** The days over which the present rate of use is measured. */
export const rateDays = 30;

/** The rate of use changes slowly, and a statement can be long: it is not read again with every event. */
export const burnRateQuery = (hpc: string, project: string) =>
  queryOptions({
    queryKey: ['burn-rate', hpc, project],
    queryFn: async ({ signal }) => {
      const from = startOfDay(addDays(today(), -rateDays)).toISOString();
      const { time } = await bursar.statement({ hpc, project, from, signal });
      return time.burn_rate_per_day;
    },
    staleTime: 10 * 60_000,
  });
