import type { Me, Project } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import { meQuery, projectsQuery } from '../../../client/queries.ts';
import { formatAmount } from '../../../shared/amount.ts';
import { managedProjects } from '../../../shared/permissions.ts';
import { systemName } from '../../../shared/system-name.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card, PageHeader } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { EmptyState, QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { usePermissions } from '../use-permissions.ts';
import { useCharge } from './accounts.ts';
import { CreateProjectDialog } from './project-dialogs.tsx';

export function ProjectsPage() {
  const may = usePermissions();
  const { data: me } = useQuery(meQuery);
  const [isCreating, setCreating] = useState(false);
  const isManagerOnly = !may('projects.read') && me !== undefined && managedProjects(me).length > 0;
  return (
    <>
      <PageHeader
        title="Projects"
        description={isManagerOnly ? 'The projects that you manage.' : undefined}
        actions={
          may('projects.write') && (
            <Button variant="primary" onClick={() => setCreating(true)}>
              New project
            </Button>
          )
        }
      />
      {isManagerOnly ? <ManagedProjects me={me} /> : <AllProjects />}
      {isCreating && <CreateProjectDialog onClose={() => setCreating(false)} />}
    </>
  );
}

function AllProjects() {
  const projects = useQuery(projectsQuery);
  return (
    <QueryView query={projects} loading={<SkeletonLines count={8} />}>
      {(list) =>
        list.length === 0 ? (
          <EmptyState title="There are no projects">Create one, so that users can submit jobs.</EmptyState>
        ) : (
          <div className={styles.sections}>
            {[...Map.groupBy(list, systemName)].map(([hpc, group]) => (
              <SystemProjects key={hpc} hpc={hpc} projects={group} />
            ))}
          </div>
        )
      }
    </QueryView>
  );
}

function SystemProjects({ hpc, projects }: { hpc: string; projects: readonly Project[] }) {
  const charge = useCharge(hpc);
  return (
    <Card title={hpc}>
      <Table label={`Projects of ${hpc}`}>
        <thead>
          <tr>
            <th scope="col">Project</th>
            <th scope="col">State</th>
            <th scope="col">Members</th>
            <th scope="col" className="number">
              Time of a new member
            </th>
            <th scope="col" className="number">
              Space of a new member
            </th>
            <th scope="col">Created</th>
          </tr>
        </thead>
        <tbody>
          {projects.map((project) => (
            <tr key={project.id}>
              <td>
                <Link to="/admin/projects/$hpc/$project" params={{ hpc, project: project.project_name }}>
                  {project.project_name}
                </Link>
              </td>
              <td>{project.closed_at === null ? 'Open' : <Badge>Closed</Badge>}</td>
              <td>{project.auto_join ? 'every user' : 'by invitation'}</td>
              <td className="number">{formatAmount('time', project.grant_time_seconds, charge)}</td>
              <td className="number">{formatAmount('space', project.grant_space_kb)}</td>
              <td>
                <Time value={project.created_at} form="date" />
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

/** Managers may not list all projects. Their account names theirs. */
function ManagedProjects({ me }: { me: Me }) {
  return (
    <div className="grid">
      {managedProjects(me).map(({ hpc, project }) => (
        <Card key={`${hpc}/${project}`} title={project}>
          <p className="muted">{hpc}</p>
          <Link to="/admin/projects/$hpc/$project" params={{ hpc, project }}>
            Members and quotas
          </Link>
        </Card>
      ))}
    </div>
  );
}
