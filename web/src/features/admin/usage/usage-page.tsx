import type { Me } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { lazy, Suspense, useMemo } from 'react';
import { meQuery, systemsQuery } from '../../../client/queries.ts';
import { formatAmount } from '../../../shared/amount.ts';
import { managedProjects, mayAdminister, type ProjectName } from '../../../shared/permissions.ts';
import { systemName } from '../../../shared/system-name.ts';
import { buttonClass } from '../../../ui/button.tsx';
import { Card, PageHeader } from '../../../ui/card.tsx';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { formatNumber } from '../../../ui/format.ts';
import { Link } from '../../../ui/link.tsx';
import { EmptyState, QueryView, Skeleton } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import styles from '../admin.module.css';
import { usageQuery } from '../queries.ts';
import { type Charge, groupUsage, type MonthlyUsage, plotSeries } from './usage-groups.ts';
import type { UsageSearch } from './usage-search.ts';

const route = getRouteApi('/admin/usage');
const Plot = lazy(() => import('../../../ui/plot.tsx'));

export function UsagePage() {
  const { data: me } = useQuery(meQuery);
  return me && <Usage me={me} />;
}

function Usage({ me }: { me: Me }) {
  const isStaff = mayAdminister(me, 'quotas.read');
  const managed = managedProjects(me);
  const given = route.useSearch();
  const search = isStaff ? given : withProject(given, managed);
  const { user, hpc, project } = search;
  const only = isStaff || hpc === undefined || project === undefined ? undefined : { hpc, project };
  const usage = useQuery(usageQuery(user, only));
  const systems = useQuery(systemsQuery);
  const csv = user === undefined ? '/admin/usage/' : `/admin/usage/${encodeURIComponent(user)}/`;
  const csvQuery = new URLSearchParams({ ...(only && { hpc: only.hpc, project_name: only.project }), format: 'csv' });
  const csvName = user === undefined ? 'usage.csv' : `usage-${user}.csv`;
  return (
    <>
      <PageHeader
        title="Usage"
        description="Charged time minus refunds, and jobs that ended, by project and month (UTC)."
        actions={
          usage.data && (
            <a className={buttonClass()} href={`${csv}?${csvQuery}`} download={csvName}>
              {user === undefined ? 'CSV of all users' : `CSV of user ${user}`}
            </a>
          )
        }
      />
      <QueryView query={usage} loading={<Skeleton height="30rem" />}>
        {(rows) => {
          const charges = new Map(systems.data?.map(({ hpc, charge }) => [hpc, charge]));
          const groups = groupUsage(rows, search, charges);
          return (
            <>
              <UsageFilters search={search} projects={isStaff ? projectsOf(rows) : managed} isStaff={isStaff} />
              {groups.length === 0 ? (
                <EmptyState title={rows.length === 0 ? 'No job has ended yet' : 'No usage matches'}>
                  {rows.length === 0 ? 'Usage appears here when the first job ends.' : 'Choose other filters.'}
                </EmptyState>
              ) : (
                groups.map(({ charge, months }) => <UsageOfUnit key={charge} charge={charge} months={months} />)
              )}
            </>
          );
        }}
      </QueryView>
    </>
  );
}

/** Managers read one project at a time: at first the first one, or the first one of the chosen system. */
function withProject(search: UsageSearch, managed: readonly ProjectName[]): UsageSearch {
  if (search.project !== undefined) return search;
  return { ...search, ...managed.find(({ hpc }) => search.hpc === undefined || hpc === search.hpc) };
}

function projectsOf(rows: readonly { project_hpc: string; project_name: string }[]): ProjectName[] {
  const names = new Map(
    rows.map((row) => {
      const key = { hpc: systemName(row), project: row.project_name };
      return [`${key.hpc}/${key.project}`, key] as const;
    }),
  );
  return [...names.entries()].sort(([one], [other]) => one.localeCompare(other)).map(([, key]) => key);
}

interface FilterProps {
  search: UsageSearch;
  projects: readonly ProjectName[];
  /** May read all projects at once. */
  isStaff: boolean;
}

function UsageFilters({ search, projects, isStaff }: FilterProps) {
  const navigate = route.useNavigate();
  const change = (part: UsageSearch) => void navigate({ search: { ...search, ...part } });
  const systems = [...new Set(projects.map(({ hpc }) => hpc))];
  const names = projects.filter(({ hpc }) => search.hpc === undefined || hpc === search.hpc);
  return (
    <search className={styles.filters}>
      <SelectField
        label="System"
        value={search.hpc ?? ''}
        onChange={(event) => change({ hpc: event.target.value || undefined, project: undefined })}
      >
        {isStaff && <option value="">All systems</option>}
        {systems.map((hpc) => (
          <option key={hpc}>{hpc}</option>
        ))}
      </SelectField>
      <SelectField
        label="Project"
        value={search.project ?? ''}
        onChange={(event) => change({ project: event.target.value || undefined })}
      >
        {isStaff && <option value="">All projects</option>}
        {[...new Set(names.map(({ project }) => project))].map((project) => (
          <option key={project}>{project}</option>
        ))}
      </SelectField>
      <form
        key={search.user ?? ''}
        onSubmit={(event) => {
          event.preventDefault();
          change({ user: String(new FormData(event.currentTarget).get('user')).trim() || undefined });
        }}
      >
        <TextField
          label="User"
          name="user"
          type="search"
          placeholder="All users: an identifier and Enter"
          defaultValue={search.user}
        />
      </form>
      {Object.values(search).some((value) => value !== undefined) && (
        <Link to="/admin/usage" search={{}}>
          Clear
        </Link>
      )}
    </search>
  );
}

/** Amounts in different units do not add up: each unit has a plot of its own. */
function UsageOfUnit({ charge, months }: { charge: Charge; months: readonly MonthlyUsage[] }) {
  const { times, series } = useMemo(() => plotSeries(months), [months]);
  const format = useMemo(() => (seconds: number) => formatAmount('time', seconds, charge), [charge]);
  const total = months.reduce((sum, { seconds }) => sum + seconds, 0);
  return (
    <div className={styles.sections}>
      <Card title={`${format(total)} in all`}>
        <Suspense fallback={<Skeleton height="270px" />}>
          <Plot times={times} series={series} format={format} />
        </Suspense>
      </Card>
      <Table label="Usage by project and month">
        <thead>
          <tr>
            <th scope="col">Month</th>
            <th scope="col">System</th>
            <th scope="col">Project</th>
            <th scope="col" className="number">
              Jobs
            </th>
            <th scope="col" className="number">
              Time
            </th>
          </tr>
        </thead>
        <tbody>
          {months.map(({ month, hpc, project, jobs, seconds }) => (
            <tr key={`${month} ${hpc} ${project}`}>
              <td className={styles.noWrap}>{month}</td>
              <td>{hpc}</td>
              <td>
                <Link to="/admin/projects/$hpc/$project" params={{ hpc, project }}>
                  {project}
                </Link>
              </td>
              <td className="number">{formatNumber(jobs)}</td>
              <td className="number">{format(seconds)}</td>
            </tr>
          ))}
        </tbody>
      </Table>
    </div>
  );
}
