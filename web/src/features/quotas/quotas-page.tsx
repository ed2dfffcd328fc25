import { useQuery } from '@tanstack/react-query';
import { Card, PageHeader } from '../../ui/card.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';
import { accountsQuery, groupByProject } from './accounts.ts';
import { ProjectCard } from './project-card.tsx';

/** The time and space that the user has in each project. */
export function QuotasPage() {
  const accounts = useQuery(accountsQuery);
  return (
    <>
      <PageHeader title="Quotas" description="What you have in each project, and how long it lasts." />
      <QueryView query={accounts} loading={<Loading />}>
        {(list) =>
          list.length === 0 ? (
            <EmptyState title="You have no quota">
              You are in no project. Ask an administrator, or the manager of a project, to make you a member.
            </EmptyState>
          ) : (
            <div className="grid">
              {groupByProject(list).map((project) => (
                <ProjectCard key={`${project.hpc}/${project.name}`} project={project} />
              ))}
            </div>
          )
        }
      </QueryView>
    </>
  );
}

function Loading() {
  return (
    <div className="grid" role="status" aria-label="Loading">
      {[1, 2].map((key) => (
        <Card key={key}>
          <Skeleton height="19rem" />
        </Card>
      ))}
    </div>
  );
}
