import type { User } from '@bursar/client';
import { useQueryClient } from '@tanstack/react-query';
import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { SelectField } from '../../../ui/field.tsx';
import { toast } from '../../../ui/toast.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import { adminKeys } from '../queries.ts';
import { type Role, userRoles } from './users-search.ts';

interface UserDialogProps {
  user: User;
  onClose: () => void;
}

const roleTexts: Record<Role, string> = {
  user: 'Only their own jobs, files and quotas.',
  auditor: 'Reads everything, with files, the audit trail and the ledger. Changes nothing.',
  operator: 'Reads everything but files. Pauses systems, cancels jobs, revokes tokens.',
  administrator: 'Everything: users, projects, quotas, systems.',
};

/** Applies a change, and reads the list and the page of the user again. */
function useUserChange() {
  const queryClient = useQueryClient();
  return async (change: Promise<unknown>, message: string) => {
    await change;
    await queryClient.invalidateQueries({ queryKey: adminKeys.users });
    toast.show(message);
  };
}

export function RoleDialog({ user, onClose }: UserDialogProps) {
  const apply = useUserChange();
  const [role, setRole] = useState<Role>(user.role);
  return (
    <ActionDialog
      title={`Role of ${nameOf(user)}`}
      submitLabel="Change role"
      canSubmit={role !== user.role}
      onClose={onClose}
      onSubmit={(reason, key) =>
        apply(
          bursar.api.setUserRole({
            path: { user_id: user.user },
            headers: { 'Idempotency-Key': key },
            body: { role, reason },
          }),
          `${nameOf(user)}: ${user.role} → ${role}`,
        )
      }
    >
      <SelectField
        label="Role"
        hint={roleTexts[role]}
        value={role}
        onChange={(event) => setRole(event.target.value as Role)}
      >
        {userRoles.map((each) => (
          <option key={each} value={each}>
            {each}
            {each === user.role ? ' (now)' : ''}
          </option>
        ))}
      </SelectField>
      <p className="muted">It takes effect at once, also for tokens and open pages of the user.</p>
    </ActionDialog>
  );
}

export function DisableUserDialog({ user, onClose }: UserDialogProps) {
  const apply = useUserChange();
  return (
    <ActionDialog
      title={`Disable ${nameOf(user)}`}
      submitLabel="Disable"
      isDangerous
      onClose={onClose}
      onSubmit={(reason, key) =>
        apply(
          bursar.api.disableUser({
            path: { user_id: user.user },
            headers: { 'Idempotency-Key': key },
            body: { reason },
          }),
          `${nameOf(user)} is disabled`,
        )
      }
    >
      <p>All their requests are refused at once, and open pages end. Their jobs continue.</p>
    </ActionDialog>
  );
}

export function EnableUserDialog({ user, onClose }: UserDialogProps) {
  const apply = useUserChange();
  return (
    <ActionDialog
      title={`Enable ${nameOf(user)}`}
      submitLabel="Enable"
      onClose={onClose}
      onSubmit={(reason, key) =>
        apply(
          bursar.api.enableUser({
            path: { user_id: user.user },
            headers: { 'Idempotency-Key': key },
            body: { reason },
          }),
          `${nameOf(user)} is enabled`,
        )
      }
    >
      <p>They can sign in again. Their tokens that were not revoked work again.</p>
    </ActionDialog>
  );
}

const nameOf = ({ name, user }: User) => name ?? `user ${user}`;
