import type { Job } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { bursar } from '../../client/bursar.ts';
import { meQuery } from '../../client/queries.ts';
import { pathOf } from '../../shared/job-path.ts';
import { systemName } from '../../shared/system-name.ts';
import { buttonClass } from '../../ui/button.tsx';
import { PageHeader } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import type { BulkKind } from './list/bulk-plan.ts';
import { EmptyJobList } from './list/empty-job-list.tsx';
import { JobFilters } from './list/job-filters.tsx';
import { JobList } from './list/job-list.tsx';
import { ownJobsQuery } from './list/job-page-query.ts';

const route = getRouteApi('/jobs');
/** A busy server is asked again: the user should not have to. */
const retries = 5;

/** The jobs of the user, newest first. Events keep them up to date. */
export function JobsPage() {
  const filter = route.useSearch();
  const navigate = route.useNavigate();
  const jobs = useQuery(ownJobsQuery(filter));
  const { data: me } = useQuery(meQuery);
  const projects = me?.projects.map((each) => ({ hpc: systemName(each), project: each.project_name }));
  return (
    <>
      <PageHeader
        title="Jobs"
        actions={
          <Link to="/submit" className={buttonClass('primary')}>
            Submit a job
          </Link>
        }
      />
      <JobFilters
        route="/jobs"
        filter={filter}
        projects={projects ?? []}
        onChange={(change, options) =>
          void navigate({ search: (previous) => ({ ...previous, ...change, cursor: undefined }), ...options })
        }
      />
      <JobList
        route="/jobs"
        filter={filter}
        query={jobs}
        empty={<EmptyJobList route="/jobs" filter={filter} />}
        actions={['cancel', 'delete']}
        asksReason={false}
        send={send}
        onSent={() => undefined}
      />
    </>
  );
}

function send(kind: BulkKind, job: Job): Promise<unknown> {
  const path = pathOf(job);
  return kind === 'cancel' ? bursar.api.cancelJob({ path, retries }) : bursar.api.deleteJob({ path, retries });
}
