import type { Member, ProjectAccount } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useState } from 'react';
import type { ChargeUnit } from '../../../shared/amount.ts';
import type { ProjectName } from '../../../shared/permissions.ts';
import { Badge, type Tone } from '../../../ui/badge.tsx';
import { Button } from '../../../ui/button.tsx';
import { Link } from '../../../ui/link.tsx';
import { HiddenColumnHeader, Table } from '../../../ui/table.tsx';
import { AccountCell } from '../account-figures.tsx';
import styles from '../admin.module.css';
import { usersQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';
import { findAccount } from './accounts.ts';
import { GrantDialog } from './grant-dialog.tsx';
import { MemberDialog } from './member-dialogs.tsx';
import { TransferDialog } from './transfer-dialog.tsx';

interface MemberTableProps {
  project: ProjectName;
  charge: ChargeUnit;
  accounts: readonly ProjectAccount[];
  members: readonly Member[];
}

type OpenDialog = { kind: 'quota' | 'transfer' | 'member'; member: Member };

/** The members of a project with their quotas. Its buttons are those that the user's role allows in this project. */
export function MemberTable({ project, charge, accounts, members }: MemberTableProps) {
  const may = usePermissions();
  const [dialog, setDialog] = useState<OpenDialog>();
  const { data: users } = useQuery({ ...usersQuery, enabled: may('users.read') });
  const names = new Map(users?.map(({ user, name }) => [user, name]));
  const common = { project, charge, accounts, onClose: () => setDialog(undefined) };
  const others = members.filter(({ user, status }) => user !== dialog?.member.user && status === 'active');
  const hasActions = may('grants.write', project) || may('members.write');
  return (
    <>
      <Table label="List of members">
        <thead>
          <tr>
            <th scope="col">User</th>
            <th scope="col">Membership</th>
            <th scope="col">Time</th>
            <th scope="col">Space</th>
            {hasActions && <HiddenColumnHeader>Actions</HiddenColumnHeader>}
          </tr>
        </thead>
        <tbody>
          {members.map((member) => (
            <tr key={member.user}>
              <td>
                <UserName user={member.user} name={names.get(member.user)} isLink={may('users.read')} />
              </td>
              <td>
                <Membership member={member} />
              </td>
              <td>
                <AccountCell account={findAccount(accounts, member.user, 'time')} charge={charge} />
              </td>
              <td>
                <AccountCell account={findAccount(accounts, member.user, 'space')} charge={charge} />
              </td>
              {hasActions && (
                <td>
                  <MemberActions project={project} member={member} count={members.length} onOpen={setDialog} />
                </td>
              )}
            </tr>
          ))}
        </tbody>
      </Table>
      {dialog?.kind === 'quota' && <GrantDialog {...common} user={dialog.member.user} />}
      {dialog?.kind === 'transfer' && (
        <TransferDialog {...common} from={dialog.member.user} receivers={others.map(({ user }) => user)} />
      )}
      {dialog?.kind === 'member' && <MemberDialog {...common} member={dialog.member} />}
    </>
  );
}

interface MemberActionsProps {
  project: ProjectName;
  member: Member;
  /** Of all members: a transfer needs two. */
  count: number;
  onOpen: (dialog: OpenDialog) => void;
}

function MemberActions({ project, member, count, onOpen }: MemberActionsProps) {
  const may = usePermissions();
  const button = (kind: OpenDialog['kind'], text: string) => (
    <Button aria-label={`${text} of user ${member.user}`} onClick={() => onOpen({ kind, member })}>
      {text}
    </Button>
  );
  return (
    <div className={styles.rowActions}>
      {may('grants.write', project) && button('quota', 'Quota')}
      {may('grants.write', project) && count > 1 && button('transfer', 'Transfer')}
      {may('members.write') && button('member', 'Membership')}
    </div>
  );
}

function UserName({ user, name, isLink }: { user: string; name: string | null | undefined; isLink: boolean }) {
  return (
    <>
      {isLink ? (
        <Link to="/admin/users/$userId" params={{ userId: user }}>
          {user}
        </Link>
      ) : (
        user
      )}
      {name && <span className={styles.cellNote}>{name}</span>}
    </>
  );
}

const statusTones: Record<Member['status'], Tone> = { active: 'good', removed: 'neutral', banned: 'bad' };

function Membership({ member: { role, status, reason } }: { member: Member }) {
  return (
    <>
      <span className="row">
        <Badge tone={statusTones[status]}>{status}</Badge>
        {role === 'manager' && <Badge tone="info">manager</Badge>}
      </span>
      {status !== 'active' && reason !== '' && <span className={styles.cellNote}>{reason}</span>}
    </>
  );
}
