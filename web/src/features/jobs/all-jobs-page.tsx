import type { Job, Me } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { bursar } from '../../client/bursar.ts';
import type { JobPageFilter } from '../../client/job-pages.ts';
import { meQuery } from '../../client/queries.ts';
import { pathOf } from '../../shared/job-path.ts';
import { mayAdminister, type ProjectName } from '../../shared/permissions.ts';
import { Button } from '../../ui/button.tsx';
import { PageHeader } from '../../ui/card.tsx';
import { ReadTime } from '../../ui/time.tsx';
import type { BulkKind } from './list/bulk-plan.ts';
import { EmptyJobList } from './list/empty-job-list.tsx';
import { JobFilters } from './list/job-filters.tsx';
import { JobList } from './list/job-list.tsx';
import { allJobsQuery } from './list/job-page-query.ts';
import { useReadableProjects } from './list/use-readable-projects.ts';

const route = getRouteApi('/admin/jobs');
const retries = 5;

/** The jobs of all users, for staff, and of the members of a project, for its managers. */
export function AllJobsPage() {
  const search = route.useSearch();
  const navigate = route.useNavigate();
  const { projects, isStaff } = useReadableProjects();
  const filter = isStaff ? search : withProject(search, projects);
  const jobs = useQuery({ ...allJobsQuery(filter), refetchOnWindowFocus: 'always' });
  const { data: me } = useQuery(meQuery);
  return (
    <>
      <PageHeader
        title="All jobs"
        // No events report the jobs of others.
        description={<ReadTime at={jobs.dataUpdatedAt} />}
        actions={
          <Button isBusy={jobs.isFetching} onClick={() => void jobs.refetch()}>
            Refresh
          </Button>
        }
      />
      <JobFilters
        route="/admin/jobs"
        filter={filter}
        projects={projects}
        onChange={(change, options) =>
          void navigate({ search: (previous) => ({ ...previous, ...change, cursor: undefined }), ...options })
        }
      />
      <JobList
        route="/admin/jobs"
        filter={filter}
        query={jobs}
        empty={<EmptyJobList route="/admin/jobs" filter={search} />}
        actions={me === undefined ? [] : allowedActions(me, filter)}
        asksReason
        send={sendForOther}
        onSent={() => void jobs.refetch()}
      />
    </>
  );
}

/** Managers read one project at a time: at first the first one, or the first one of the chosen system. */
function withProject(search: JobPageFilter, projects: readonly ProjectName[]): JobPageFilter {
  if (search.project !== undefined) return search;
  const first = projects.find(({ hpc }) => search.hpc === undefined || hpc === search.hpc);
  return { ...search, ...first };
}

function allowedActions(me: Me, { hpc, project }: JobPageFilter): BulkKind[] {
  const where = hpc === undefined || project === undefined ? undefined : { hpc, project };
  const kinds = ['cancel', 'delete'] as const;
  return kinds.filter((kind) => mayAdminister(me, `jobs.${kind}`, where));
}

function sendForOther(kind: BulkKind, job: Job, reason: string): Promise<unknown> {
  const path = pathOf(job);
  if (kind === 'cancel') return bursar.api.cancelJobOfAnyUser({ path, body: { reason }, retries });
  return bursar.api.deleteJobOfAnyUser({ path, query: { reason }, retries });
}
