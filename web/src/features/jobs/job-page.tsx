import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useMemo } from 'react';
import { meQuery } from '../../client/queries.ts';
import { mayAdminister } from '../../shared/permissions.ts';
import { Card, PageHeader } from '../../ui/card.tsx';
import { Link } from '../../ui/link.tsx';
import { EmptyState, QueryView } from '../../ui/states.tsx';
import tabStyles from '../../ui/tabs.module.css';
import { FilesTab } from './job/files/files-tab.tsx';
import { JobHeader } from './job/job-header.tsx';
import { JobSkeleton } from './job/job-skeleton.tsx';
import { jobSource } from './job/job-source.ts';
import { LogTab } from './job/log/log-tab.tsx';
import { Overview } from './job/overview/overview.tsx';
import { timelineQuery, useOwnerEvents } from './job/queries.ts';
import type { JobSearch } from './job-search.ts';

const route = getRouteApi('/jobs/$hpc/$project/$jobId');

const tabs: readonly { tab: JobSearch['tab']; title: string }[] = [
  { tab: undefined, title: 'Overview' },
  { tab: 'log', title: 'Log' },
  { tab: 'files', title: 'Files' },
];

/** One job: its history and cost, its output, and its files. */
export function JobPage() {
  const { hpc, project, jobId } = route.useParams();
  const { admin: isAdmin = false, tab } = route.useSearch();
  const source = useMemo(
    () => jobSource({ hpc, project_name: project, job_id: jobId }, isAdmin),
    [hpc, project, jobId, isAdmin],
  );
  const timeline = useQuery(timelineQuery(source));
  useOwnerEvents(source, timeline.data?.job.owner);

  const isUnknown = (timeline.error as { status?: number } | null)?.status === 404;
  if (timeline.data === undefined && isUnknown) return <UnknownJob jobId={jobId} isAdmin={isAdmin} />;
  return (
    <QueryView query={timeline} loading={<JobSkeleton />}>
      {(data) => (
        <>
          <JobHeader source={source} timeline={data} />
          <nav className={tabStyles.tabs} aria-label="Views of the job">
            {tabs.map((each) => (
              <Link
                key={each.title}
                from="/jobs/$hpc/$project/$jobId"
                to="."
                search={{ tab: each.tab, admin: isAdmin || undefined }}
                aria-current={each.tab === tab ? 'page' : undefined}
              >
                {each.title}
              </Link>
            ))}
          </nav>
          {tab === undefined && <Overview source={source} timeline={data} />}
          {tab === 'log' && <LogTab source={source} />}
          {tab === 'files' && <FilesTab source={source} timeline={data} />}
        </>
      )}
    </QueryView>
  );
}

/** The server does not tell whether there is no such job, or one of somebody else. */
function UnknownJob({ jobId, isAdmin }: { jobId: string; isAdmin: boolean }) {
  const { data: me } = useQuery(meQuery);
  const params = route.useParams();
  const mayReadOthers =
    me !== undefined && mayAdminister(me, 'jobs.read', { hpc: params.hpc, project: params.project });
  return (
    <>
      <PageHeader title="Unknown job" />
      <Card>
        <EmptyState
          title={isAdmin ? 'There is no such job' : 'You have no such job'}
          actions={
            <>
              <Link to="/jobs">Go to your jobs</Link>
              {!isAdmin && mayReadOthers && (
                <Link from="/jobs/$hpc/$project/$jobId" to="." search={(search) => ({ ...search, admin: true })}>
                  Look among the jobs of all users
                </Link>
              )}
            </>
          }
        >
          No job of {isAdmin ? 'this project' : 'yours'} has the identifier <code>{jobId}</code>. Check the address: it
          may be cut off, or belong to another user.
        </EmptyState>
      </Card>
    </>
  );
}
