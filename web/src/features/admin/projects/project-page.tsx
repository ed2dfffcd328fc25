import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { projectsQuery } from '../../../client/queries.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import { systemName } from '../../../shared/system-name.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card, PageHeader } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { QueryView, Skeleton } from '../../../ui/states.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { membersQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';
import { findAccount, projectAccountsQuery, useCharge } from './accounts.ts';
import { GrantDialog } from './grant-dialog.tsx';
import { AddMemberDialog } from './member-dialogs.tsx';
import { MemberTable } from './member-table.tsx';
import { PeriodDialog } from './period-dialog.tsx';
import { PoolFigures } from './pool-figures.tsx';
import { CloseProjectDialog } from './project-dialogs.tsx';
import { RefundDialog } from './refund-dialog.tsx';

const route = getRouteApi('/admin/projects/$hpc/$project');

export function ProjectPage() {
  const { hpc, project: name } = route.useParams();
  const project: ProjectName = { hpc, project: name };
  const may = usePermissions();
  const accounts = useQuery(projectAccountsQuery(project));
  // Managers may not list projects: for them the page does not say whether this one is closed.
  const { data: projects } = useQuery({ ...projectsQuery, enabled: may('projects.read') });
  const record = projects?.find((each) => systemName(each) === hpc && each.project_name === name);
  const closedAt = record?.closed_at ?? null;
  return (
    <>
      <PageHeader
        title={name}
        description={
          <>
            <Link to="/admin/projects">Projects</Link> / {hpc}
            {closedAt !== null && (
              <>
                {' '}
                <Badge>Closed</Badge> <Time value={closedAt} />
              </>
            )}
          </>
        }
        actions={accounts.data && <ProjectActions project={project} isClosed={closedAt !== null} />}
      />
      <QueryView query={accounts} loading={<Skeleton height="30rem" />}>
        {() => (
          <div className={styles.sections}>
            <Pool project={project} />
            <Members project={project} />
          </div>
        )}
      </QueryView>
    </>
  );
}

function useProjectData(project: ProjectName) {
  const { data: accounts = [] } = useQuery(projectAccountsQuery(project));
  const members = useQuery(membersQuery(project.hpc, project.project));
  return { accounts, members, charge: useCharge(project.hpc) };
}

function ProjectActions({ project, isClosed }: { project: ProjectName; isClosed: boolean }) {
  const may = usePermissions();
  const { accounts, members, charge } = useProjectData(project);
  const [dialog, setDialog] = useState<'refund' | 'period' | 'close'>();
  const common = { project, charge, accounts, onClose: () => setDialog(undefined) };
  return (
    <>
      <Link to="/admin/jobs" search={{ hpc: project.hpc, project: project.project }}>
        Jobs
      </Link>
      {may('projects.write') && (
        <>
          <Button onClick={() => setDialog('refund')}>Refund a job</Button>
          <Button onClick={() => setDialog('period')}>New period</Button>
          {!isClosed && (
            <Button variant="danger" onClick={() => setDialog('close')}>
              Close project
            </Button>
          )}
        </>
      )}
      {dialog === 'refund' && <RefundDialog {...common} />}
      {dialog === 'period' && (
        <PeriodDialog
          {...common}
          members={members.data ?? []}
          ends={findAccount(accounts, null, 'time')?.ends ?? null}
        />
      )}
      {dialog === 'close' && <CloseProjectDialog {...common} />}
    </>
  );
}

function Pool({ project }: { project: ProjectName }) {
  const may = usePermissions();
  const { accounts, charge } = useProjectData(project);
  const [isChanging, setChanging] = useState(false);
  return (
    <Card
      title="Pool"
      actions={may('projects.write') && <Button onClick={() => setChanging(true)}>Change the pool</Button>}
    >
      <PoolFigures accounts={accounts} charge={charge} />
      {isChanging && <GrantDialog {...{ project, charge, accounts }} user={null} onClose={() => setChanging(false)} />}
    </Card>
  );
}

function Members({ project }: { project: ProjectName }) {
  const may = usePermissions();
  const { accounts, members, charge } = useProjectData(project);
  const [isAdding, setAdding] = useState(false);
  return (
    <Card
      title="Members"
      actions={may('members.write') && <Button onClick={() => setAdding(true)}>Add a member</Button>}
    >
      <QueryView query={members} loading={<Skeleton height="12rem" />}>
        {(list) =>
          list.length === 0 ? (
            <p className="muted">This project has no members yet. Add one, so that jobs can be submitted.</p>
          ) : (
            <MemberTable {...{ project, charge, accounts }} members={list} />
          )
        }
      </QueryView>
      {isAdding && <AddMemberDialog project={project} charge={charge} onClose={() => setAdding(false)} />}
    </Card>
  );
}
