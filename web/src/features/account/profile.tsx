import type { Me } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { formatBytes } from '../../../../src/domain/format-amount.ts';
import { systemName } from '../../shared/system-name.ts';
import { Badge } from '../../ui/badge.tsx';
import { Card, DescriptionList } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy-button.tsx';
import { Link } from '../../ui/link.tsx';
import { EmptyState, QueryView, Skeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import styles from './account.module.css';
import { clientsQuery } from './queries.ts';

const readable = (word: string) => word.replaceAll('_', ' ');

/** The user, the projects, and the programs for other ways to use the service. */
export function Profile({ me }: { me: Me }) {
  return (
    <div className="stack">
      <Card title={me.name ?? `User ${me.user}`}>
        <DescriptionList
          items={[
            ['User', me.user],
            ['Mail', me.mail ?? '–'],
            ['Roles', me.roles.map(readable).join(', ')],
            ['Scopes of this session', me.scopes.join(', ')],
            ['Session ends', <Time key="end" value={me.expires_at} />],
          ]}
        />
      </Card>
      <Projects projects={me.projects} />
      <Programs />
    </div>
  );
}

function Projects({ projects }: Pick<Me, 'projects'>) {
  if (projects.length === 0) {
    return (
      <Card title="Projects">
        <EmptyState title="You are in no project">
          Ask an administrator, or the manager of a project, to make you a member.
        </EmptyState>
      </Card>
    );
  }
  return (
    <Card title="Projects">
      <Table label="Your projects">
        <thead>
          <tr>
            <th scope="col">Project</th>
            <th scope="col">System</th>
            <th scope="col">Role</th>
            <th scope="col">Membership</th>
          </tr>
        </thead>
        <tbody>
          {projects.map((project) => (
            <tr key={`${project.project_hpc}/${project.project_name}`}>
              <td>
                <Link to="/quotas/$hpc/$project" params={{ hpc: systemName(project), project: project.project_name }}>
                  {project.project_name}
                </Link>
              </td>
              <td>{systemName(project)}</td>
              <td>{project.role}</td>
              <td>
                <Badge tone={project.status === 'active' ? 'good' : 'warning'}>{project.status}</Badge>
              </td>
            </tr>
          ))}
        </tbody>
      </Table>
    </Card>
  );
}

function Programs() {
  const clients = useQuery(clientsQuery);
  return (
    <Card title="Command line and libraries">
      <div className="stack">
        <p>
          They do all that this page does, and have the version of this server. They ask you to sign in, or use a{' '}
          <Link to="/account" search={{ tab: 'tokens' }}>
            token
          </Link>
          .
        </p>
        <QueryView query={clients} loading={<Skeleton height="11rem" />}>
          {(list) =>
            list.map((each) => (
              <div key={each.name} className={styles.program}>
                <p>
                  <a href={each.url} download>
                    {each.name}
                  </a>{' '}
                  <span className="muted">
                    ({formatBytes(each.size)}) · {each.description}
                  </span>
                </p>
                <div className={styles.command}>
                  <code>{each.install}</code>
                  <CopyButton text={each.install} />
                </div>
              </div>
            ))
          }
        </QueryView>
        <p className="muted">
          Their hashes are on <a href="/clients/">their own page</a>. The API is described{' '}
          <a href="/docs/">in its documentation</a>.
        </p>
      </div>
    </Card>
  );
}
