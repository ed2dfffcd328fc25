import type { UserDetails } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { getRouteApi } from '@tanstack/react-router';
import { useState } from 'react';
import { meQuery } from '../../../client/queries.ts';
import { Badge } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Card, DescriptionList, PageHeader } from '../../../ui/card.tsx';
import { Link } from '../../../ui/link.tsx';
import { QueryView, SkeletonLines } from '../../../ui/states.tsx';
import { Table } from '../../../ui/table.tsx';
import { Time } from '../../../ui/time.tsx';
import styles from '../admin.module.css';
import { userQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';
import { RoleBadge } from './role-badge.tsx';
import { UserAccounts } from './user-accounts.tsx';
import { DisableUserDialog, EnableUserDialog, RoleDialog } from './user-dialogs.tsx';
import { UserSessions } from './user-sessions.tsx';
import { UserTokens } from './user-tokens.tsx';

const route = getRouteApi('/admin/users/$userId');

export function UserPage() {
  const { userId } = route.useParams();
  const user = useQuery(userQuery(userId));
  const name = user.data?.name ?? `User ${userId}`;
  return (
    <>
      <PageHeader
        title={name}
        description={
          <>
            <Link to="/admin/users">Users</Link> / {userId}
          </>
        }
        actions={user.data && <UserActions user={user.data} />}
      />
      <QueryView query={user} loading={<SkeletonLines count={12} />}>
        {(details) => (
          <div className={styles.sections}>
            <div className={styles.columns}>
              <Properties user={details} />
              <Identities user={details} />
            </div>
            <UserAccounts userId={userId} />
            <UserTokens userId={userId} />
            <UserSessions userId={userId} />
          </div>
        )}
      </QueryView>
    </>
  );
}

/** Only administrators change users. The server refuses changes of oneself, so that nobody locks everybody out. */
function UserActions({ user }: { user: UserDetails }) {
  const may = usePermissions();
  const { data: me } = useQuery(meQuery);
  const [dialog, setDialog] = useState<'role' | 'disable' | 'enable'>();
  if (!may('users.write')) return null;
  const close = () => setDialog(undefined);
  if (me?.user === user.user) {
    return <p className="muted">You cannot change your own role, or disable yourself. Ask another administrator.</p>;
  }
  return (
    <>
      <Button onClick={() => setDialog('role')}>Change role</Button>
      {user.disabled_at === null ? (
        <Button variant="danger" onClick={() => setDialog('disable')}>
          Disable
        </Button>
      ) : (
        <Button variant="primary" onClick={() => setDialog('enable')}>
          Enable
        </Button>
      )}
      {dialog === 'role' && <RoleDialog user={user} onClose={close} />}
      {dialog === 'disable' && <DisableUserDialog user={user} onClose={close} />}
      {dialog === 'enable' && <EnableUserDialog user={user} onClose={close} />}
    </>
  );
}

function Properties({ user }: { user: UserDetails }) {
  const may = usePermissions();
  const { disabled_at: disabledAt } = user;
  return (
    <Card title="Properties">
      <DescriptionList
        items={[
          ['Identifier', <code key="id">{user.user}</code>],
          ['Name', user.name ?? '–'],
          [
            'Mail',
            user.mail === null ? (
              '–'
            ) : (
              <a key="mail" href={`mailto:${user.mail}`}>
                {user.mail}
              </a>
            ),
          ],
          ['Role', <RoleBadge key="role" role={user.role} />],
          [
            'State',
            disabledAt === null ? (
              'Enabled'
            ) : (
              <span key="state" className="row">
                <Badge tone="bad">Disabled</Badge> since <Time value={disabledAt} />
              </span>
            ),
          ],
          ['Since', <Time key="since" value={user.created_at} />],
          [
            'See also',
            <span key="links" className="row">
              <Link to="/admin/jobs" search={{ user: user.user }}>
                Jobs
              </Link>
              {may('quotas.read') && (
                <Link to="/admin/usage" search={{ user: user.user }}>
                  Usage
                </Link>
              )}
              {may('audit.read') && (
                <>
                  <Link to="/admin/audit" search={{ actor: user.user }}>
                    Acts of this user
                  </Link>
                  <Link to="/admin/audit" search={{ subject: user.user }}>
                    Acts on this user
                  </Link>
                </>
              )}
            </span>,
          ],
        ]}
      />
    </Card>
  );
}

function Identities({ user: { identities } }: { user: UserDetails }) {
  return (
    <Card title="Identities">
      {identities.length === 0 ? (
        <p className="muted">
          None at an OpenID provider. This user signs in by links, or uses tokens of the command line.
        </p>
      ) : (
        <Table label="Identities at OpenID providers">
          <thead>
            <tr>
              <th scope="col">Issuer</th>
              <th scope="col">Subject</th>
              <th scope="col">Linked</th>
            </tr>
          </thead>
          <tbody>
            {identities.map(({ issuer, subject, linked_at: linkedAt }) => (
              <tr key={`${issuer} ${subject}`}>
                <td>{issuer}</td>
                <td>
                  <code>{subject}</code>
                </td>
                <td>
                  <Time value={linkedAt} form="date" />
                </td>
              </tr>
            ))}
          </tbody>
        </Table>
      )}
    </Card>
  );
}
