import type { Job, JobSummaryPage, System } from '@bursar/client';
import { type UseQueryResult, useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { JobPageFilter } from '../../../client/job-pages.ts';
import { meQuery, systemsQuery } from '../../../client/queries.ts';
import { describeError, QueryView } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { BulkDialog } from './bulk-dialog.tsx';
import { type BulkKind, type BulkPlan, planBulkAction } from './bulk-plan.ts';
import styles from './job-list.module.css';
import { JobRow } from './job-row.tsx';
import { JobTableHead } from './job-table-head.tsx';
import { JobTableSkeleton } from './job-table-skeleton.tsx';
import { JobToolbar } from './job-toolbar.tsx';
import type { ListRoute } from './list-route.ts';
import { PageLinks } from './page-links.tsx';
import { useSelection } from './use-selection.ts';
import { useSteadyRows } from './use-steady-rows.ts';

interface JobListProps {
  route: ListRoute;
  filter: JobPageFilter;
  query: UseQueryResult<JobSummaryPage>;
  /** Shown if there are no jobs. */
  empty: ReactNode;
  /** The actions on several jobs that the user may take. */
  actions: readonly BulkKind[];
  asksReason: boolean;
  send: (kind: BulkKind, job: Job, reason: string) => Promise<unknown>;
  /** Called after actions. */
  onSent: () => void;
}

/** A page of jobs, newest first. */
export function JobList(props: JobListProps) {
  const { route, query, empty } = props;
  return (
    <QueryView query={query} loading={<JobTableSkeleton route={route} />}>
      {(page) => (
        <>
          {query.isError && (
            <p className={`notice ${styles.failure}`} role="alert">
              The list could not be updated. {describeError(query.error).message}
            </p>
          )}
          {page.jobs.length === 0 ? empty : <JobTable {...props} page={page} />}
        </>
      )}
    </QueryView>
  );
}

function JobTable({
  route,
  filter,
  query,
  page,
  actions,
  asksReason,
  send,
  onSent,
}: JobListProps & { page: JobSummaryPage }) {
  const { data: me } = useQuery(meQuery);
  const { data: systems = [] } = useQuery(systemsQuery);
  // While another page is loading, the rows are still those of the previous one.
  const listKey = query.isPlaceholderData ? 'previous' : JSON.stringify(filter);
  const { rows, newCount, showNew, handlers } = useSteadyRows(listKey, page.jobs);
  const selection = useSelection(rows.map(({ job }) => job.id));
  const [plan, setPlan] = useState<BulkPlan>();
  const selectedJobs = rows.map(({ job }) => job).filter(({ id }) => selection.selected.has(id));

  return (
    <>
      <JobToolbar
        rowCount={rows.length}
        selection={selection}
        newCount={newCount}
        onShowNew={showNew}
        isLoading={query.isPlaceholderData}
        actions={actions}
        onAction={(kind) => setPlan(planBulkAction(kind, selectedJobs))}
      />
      <div className={query.isPlaceholderData ? styles.loading : ''} aria-busy={query.isPlaceholderData} {...handlers}>
        <Table label="Jobs" className={styles.table ?? ''}>
          <JobTableHead route={route} />
          <tbody>
            {rows.map((summary) => (
              <JobRow
                key={summary.job.id}
                summary={summary}
                route={route}
                filter={filter}
                system={findSystem(systems, summary.job)}
                isOfOther={summary.job.owner !== me?.user}
                isSelected={selection.selected.has(summary.job.id)}
                onSelect={(isSelected, isRange) => selection.change(summary.job.id, isSelected, isRange)}
              />
            ))}
          </tbody>
        </Table>
      </div>
      <PageLinks route={route} filter={filter} next={query.isPlaceholderData ? null : page.next} />
      <BulkDialog
        plan={plan}
        asksReason={asksReason}
        send={send}
        onClose={() => setPlan(undefined)}
        onDone={() => {
          selection.changeAll(false);
          onSent();
        }}
      />
    </>
  );
}

const findSystem = (systems: readonly System[], job: Job) =>
  systems.find(({ project_hpc: name }) => name === job.project_hpc);
