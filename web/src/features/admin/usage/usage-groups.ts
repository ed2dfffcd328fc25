import type { System, Usage } from '@bursar/client';
import { systemName } from '../../../shared/system-name.ts';
import type { UsageSearch } from './usage-search.ts';

export type Charge = System['charge'];

/** The usage of a project in a month, of all users that the filters include. */
export interface MonthlyUsage {
  month: string;
  hpc: string;
  project: string;
  jobs: number;
  seconds: number;
}

/** Adds up the users of each project and month, newest month first, apart for each unit of time. */
export function groupUsage(
  rows: readonly Usage[],
  filter: UsageSearch,
  charges: ReadonlyMap<string, Charge>,
): { charge: Charge; months: MonthlyUsage[] }[] {
  const sums = new Map<string, MonthlyUsage>();
  for (const row of rows) {
    const [hpc, project] = [systemName(row), row.project_name];
    if ((filter.hpc ?? hpc) !== hpc || (filter.project ?? project) !== project) continue;
    const key = `${row.month} ${hpc} ${project}`;
    const sum = sums.get(key) ?? { month: row.month, hpc, project, jobs: 0, seconds: 0 };
    sums.set(key, { ...sum, jobs: sum.jobs + row.jobs, seconds: sum.seconds + row.time_seconds });
  }
  const months = [...sums.values()].sort(
    (one, other) => other.month.localeCompare(one.month) || other.seconds - one.seconds,
  );
  const groups = Map.groupBy(months, ({ hpc }) => charges.get(hpc) ?? 'core');
  return [...groups].map(([charge, list]) => ({ charge, months: list }));
}

const maxProjects = 8;

/** One series for each of the largest projects, and one for the others. Months without usage are 0. */
export function plotSeries(months: readonly MonthlyUsage[]) {
  const names = listMonths(months.at(-1)?.month, months[0]?.month);
  const byProject = Map.groupBy(months, ({ hpc, project }) => `${hpc}/${project}`);
  const total = (list: readonly MonthlyUsage[]) => list.reduce((sum, { seconds }) => sum + seconds, 0);
  const sorted = [...byProject].sort(([, one], [, other]) => total(other) - total(one));
  const shown = sorted.slice(0, maxProjects);
  const others = sorted.slice(maxProjects).flatMap(([, list]) => list);
  if (others.length > 0) shown.push(['others', others]);
  const series = shown.map(([label, list]) => ({
    label,
    form: 'bars' as const,
    values: names.map((name) => total(list.filter(({ month }) => month === name))),
  }));
  return { times: names.map((name) => new Date(`${name}-01T00:00`).getTime() / 1000), series };
}

/** Fewer months would be very wide bars. */
const minMonths = 6;

/** Every month from the first to the last, both included: `2026-01`, `2026-02`… */
function listMonths(first: string | undefined, last: string | undefined): string[] {
  if (first === undefined || last === undefined) return [];
  const months: string[] = [];
  let [year = 0, month = 1] = last.split('-').map(Number);
  for (let name = last; name >= first || months.length < minMonths; ) {
    months.unshift(name);
    [year, month] = month === 1 ? [year - 1, 12] : [year, month - 1];
    name = `${year}-${String(month).padStart(2, '0')}`;
  }
  return months;
}
