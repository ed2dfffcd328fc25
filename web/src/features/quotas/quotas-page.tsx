import { useQuery } from '@tanstack/react-query';
import { systemsQuery } from '../../client/queries.ts';
import type { ChargeUnit } from '../../shared/amount.ts';
import { Card, PageHeader } from '../../ui/card.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';
import { type AccountFigures, accountsQuery } from './accounts.ts';
import { ProjectCard } from './project-card.tsx';

/** The time and space that the user has in each project. */
export function QuotasPage() {
  const accounts = useQuery(accountsQuery);
  const { data: systems } = useQuery(systemsQuery);
  const chargeOn = (hpc: string): ChargeUnit => systems?.find((system) => system.project_hpc === hpc)?.charge ?? 'core';
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
                <ProjectCard key={`${project.hpc}/${project.name}`} {...project} charge={chargeOn(project.hpc)} />
              ))}
            </div>
          )
        }
      </QueryView>
    </>
  );
}

interface ProjectAccounts {
  hpc: string;
  name: string;
  accounts: AccountFigures[];
}

function groupByProject(accounts: readonly AccountFigures[]): ProjectAccounts[] {
  const groups = Map.groupBy(accounts, ({ project_hpc: hpc, project_name: name }) => `${hpc}/${name}`);
  const inOrder = [...groups].sort(([one], [other]) => one.localeCompare(other));
  return inOrder.map(([, group]) => ({
    hpc: group[0]?.project_hpc ?? '',
    name: group[0]?.project_name ?? '',
    accounts: group,
  }));
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
