import type { Member } from '@bursar/client';
import { useQuery } from '@tanstack/react-query';
import { useId, useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { SelectField, TextField } from '../../../ui/field.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import styles from '../admin.module.css';
import { usersQuery } from '../queries.ts';
import { usePermissions } from '../use-permissions.ts';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

type MemberRole = Member['role'];
type MemberStatus = Member['status'];

const statusTexts: Record<MemberStatus, string> = {
  active: 'Submits jobs, and has a quota.',
  removed: 'Is no member any more and cannot submit. Keeps jobs, files and quota.',
  banned: 'Cannot submit, and is told so with your reason. Keeps jobs, files and quota.',
};

const roleTexts: Record<MemberRole, string> = {
  member: 'Their own jobs and quota only.',
  manager: 'Also sees all jobs and quotas of the project, cancels jobs, and distributes the reserve.',
};

/** Adds a user to the project. */
export function AddMemberDialog({ project, onClose }: ProjectDialogProps) {
  const apply = useProjectChange();
  const listId = useId();
  const may = usePermissions();
  const { data: users } = useQuery({ ...usersQuery, enabled: may('users.read') });
  const [user, setUser] = useState('');
  const [role, setRole] = useState<MemberRole>('member');
  const userId = user.trim();
  return (
    <ActionDialog
      title={`Add a member to ${project.project}`}
      submitLabel="Add"
      canSubmit={/^\d{1,20}$/.test(userId)}
      onClose={onClose}
      onSubmit={(reason) =>
        apply(
          bursar.api.setMember({
            path: { hpc: project.hpc, project_name: project.project, user_id: userId },
            body: { status: 'active', role, reason },
          }),
          `User ${userId} is a ${role} of ${project.project}`,
        )
      }
    >
      <div className={styles.fields}>
        <TextField
          label="User"
          hint="The identifier, such as 301330."
          inputMode="numeric"
          autoComplete="off"
          list={listId}
          value={user}
          onChange={(event) => setUser(event.target.value)}
        />
        <datalist id={listId}>
          {users?.map(({ user: id, name }) => (
            <option key={id} value={id}>
              {name}
            </option>
          ))}
        </datalist>
        <RoleSelect role={role} onChange={setRole} />
      </div>
      <p className="muted">A new member gets the default grant of the project, by which the pool grows.</p>
    </ActionDialog>
  );
}

/** Changes the role of a member, removes or bans them, or takes them back. */
export function MemberDialog({ project, member, onClose }: ProjectDialogProps & { member: Member }) {
  const apply = useProjectChange();
  const [status, setStatus] = useState<MemberStatus>(member.status);
  const [role, setRole] = useState<MemberRole>(member.role);
  const hasChanged = status !== member.status || role !== member.role;
  return (
    <ActionDialog
      title={`Membership of user ${member.user}`}
      submitLabel={submitLabels[status]}
      isDangerous={status !== 'active'}
      canSubmit={hasChanged}
      onClose={onClose}
      onSubmit={(reason) =>
        apply(
          bursar.api.setMember({
            path: { hpc: project.hpc, project_name: project.project, user_id: member.user },
            body: { status, role, reason },
          }),
          `User ${member.user}: ${status}, ${role}`,
        )
      }
    >
      <div className={styles.fields}>
        <SelectField
          label="Status"
          hint={statusTexts[status]}
          value={status}
          onChange={(event) => setStatus(event.target.value as MemberStatus)}
        >
          <option value="active">active</option>
          <option value="removed">removed</option>
          <option value="banned">banned</option>
        </SelectField>
        <RoleSelect role={role} onChange={setRole} />
      </div>
    </ActionDialog>
  );
}

const submitLabels: Record<MemberStatus, string> = { active: 'Change', removed: 'Remove', banned: 'Ban' };

function RoleSelect({ role, onChange }: { role: MemberRole; onChange: (role: MemberRole) => void }) {
  return (
    <SelectField
      label="Role"
      hint={roleTexts[role]}
      value={role}
      onChange={(event) => onChange(event.target.value as MemberRole)}
    >
      <option value="member">member</option>
      <option value="manager">manager</option>
    </SelectField>
  );
}
