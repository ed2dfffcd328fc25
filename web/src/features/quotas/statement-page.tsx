import type { Statement } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { chargeOf } from '../../shared/amount.ts';
import { systemName } from '../../shared/system-name.ts';
import { buttonClass } from '../../ui/button.tsx';
import { Card, PageHeader } from '../../ui/card.tsx';
import { addDays, today } from '../../ui/days.ts';
import { Link } from '../../ui/link.tsx';
import { QueryView, Skeleton } from '../../ui/states.tsx';
import { BurnDown } from './burn-down.tsx';
import { MovementTable } from './movement-table.tsx';
import { limitsOf, type StatementRange, statementQuery } from './queries.ts';
import styles from './quotas.module.css';
import { StatementFilters } from './statement-filters.tsx';
import type { StatementSearch } from './statement-search.ts';
import { StatementSummary } from './statement-summary.tsx';

const route = getRouteApi('/quotas/$hpc/$project');
const defaultDays = 90;

/** Every movement of the user's time or space in a project, as a bank shows them. */
export function StatementPage() {
  const { hpc, project } = route.useParams();
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const range = rangeOf(hpc, project, search);
  const statement = useQuery(statementQuery(range));
  const change = (next: StatementSearch) =>
    void navigate({ search: { ...search, page: undefined, ...next }, replace: next.page === undefined });

  return (
    <>
      <p className={styles.back}>
        <Link to="/quotas">← All quotas</Link>
      </p>
      <PageHeader
        title={`Statement of ${project}`}
        description={`Your ${search.resource ?? 'time'} on ${hpc}`}
        actions={
          <>
            <a className={buttonClass()} href={csvLink(range)} download={`statement-${project}.csv`}>
              Download CSV
            </a>
            <Link to="/submit" search={{ hpc, project }} className={buttonClass('primary')}>
              Submit a job
            </Link>
          </>
        }
      />
      <div className="stack">
        <StatementFilters search={search} from={range.from} onChange={change} />
        <QueryView query={statement} loading={<Loading />}>
          {(data) => (
            <div className="stack" aria-busy={statement.isPlaceholderData}>
              <StatementBody statement={data} search={search} onPage={(page) => change({ page })} />
            </div>
          )}
        </QueryView>
      </div>
    </>
  );
}

interface StatementBodyProps {
  statement: Statement;
  search: StatementSearch;
  onPage: (page: number) => void;
}

function StatementBody({ statement, search, onPage }: StatementBodyProps) {
  const resource = search.resource ?? 'time';
  const account = statement[resource];
  const charge = chargeOf(statement.time.unit);
  return (
    <>
      <StatementSummary statement={statement} resource={resource} charge={charge} />
      <BurnDown statement={statement} resource={resource} charge={charge} />
      <MovementTable
        account={account}
        resource={resource}
        charge={charge}
        path={{ hpc: systemName(statement), project: statement.project_name }}
        kind={search.kind}
        page={search.page ?? 1}
        onPage={onPage}
      />
    </>
  );
}

function rangeOf(hpc: string, project: string, { from, to }: StatementSearch): StatementRange {
  const first = from ?? addDays(to ?? today(), -defaultDays);
  return { hpc, project, from: first === 'all' ? undefined : first, to };
}

function csvLink({ hpc, project, ...range }: StatementRange): string {
  const query = new URLSearchParams({ ...limitsOf(range), format: 'csv' });
  return `/quotas/${encodeURIComponent(hpc)}/${encodeURIComponent(project)}/statement/?${query}`;
}

function Loading() {
  return (
    <div className="stack" role="status" aria-label="Loading">
      <Card>
        <Skeleton height="4rem" />
      </Card>
      <Card>
        <Skeleton height="20rem" />
      </Card>
      <Skeleton height="24rem" />
    </div>
  );
}
