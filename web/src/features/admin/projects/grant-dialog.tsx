import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { formatAmount, type Resource } from '../../../shared/amount.ts';
import { SelectField } from '../../../ui/field.tsx';
import type { AccountFigures } from '../account-figures.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import styles from '../admin.module.css';
import { usePermissions } from '../use-permissions.ts';
import { AmountField } from './amount-field.tsx';
import { type GrantChange, previewGrant } from './grant-preview.ts';
import { parseAmount } from './parse-amount.ts';
import { PreviewView } from './preview-view.tsx';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

interface GrantDialogProps extends ProjectDialogProps {
  accounts: readonly AccountFigures[];
  /** Null: the pool. */
  user: string | null;
}

/** Adds to the quota of a member or to the pool, or withdraws from it. */
export function GrantDialog({ project, charge, accounts, user, onClose }: GrantDialogProps) {
  const apply = useProjectChange(charge);
  // Managers only distribute the reserve. The server refuses anything else.
  const isManager = !usePermissions()('grants.write');
  const [kind, setKind] = useState<'top_up' | 'withdraw'>('top_up');
  const [resource, setResource] = useState<Resource>('time');
  const [source, setSource] = useState<'new' | 'pool'>(isManager ? 'pool' : 'new');
  const [text, setText] = useState('');
  const amount = parseAmount(text, resource);
  const change: GrantChange | undefined = amount === undefined ? undefined : { kind, user, resource, amount, source };
  const preview = change && previewGrant(accounts, change);
  const name = user === null ? 'the pool' : `user ${user}`;

  const submit = (reason: string, key: string) => {
    const path = { hpc: project.hpc, project_name: project.project };
    const headers = { 'Idempotency-Key': key };
    const body = { kind, resource, amount: amount ?? 0, reason };
    const sent =
      user === null
        ? bursar.api.changePool({ path, headers, body })
        : bursar.api.changeMemberQuota({ path: { ...path, user_id: user }, headers, body: { ...body, source } });
    const shown = formatAmount(resource, amount ?? 0, charge);
    return apply(sent, kind === 'top_up' ? `${shown} granted to ${name}` : `${shown} withdrawn from ${name}`);
  };

  return (
    <ActionDialog
      title={user === null ? `Pool of ${project.project}` : `Quota of user ${user} in ${project.project}`}
      submitLabel={kind === 'top_up' ? 'Grant' : 'Withdraw'}
      isDangerous={kind === 'withdraw'}
      canSubmit={preview !== undefined && preview.problem === undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      <div className={styles.fields}>
        <SelectField label="Change" value={kind} onChange={(event) => setKind(event.target.value as typeof kind)}>
          <option value="top_up">Grant more</option>
          <option value="withdraw">Withdraw</option>
        </SelectField>
        <SelectField label="Of" value={resource} onChange={(event) => setResource(event.target.value as Resource)}>
          <option value="time">Time</option>
          <option value="space">Space</option>
        </SelectField>
        <AmountField label="Amount" resource={resource} charge={charge} value={text} onChange={setText} />
        {user !== null && (
          <SelectField
            label={kind === 'top_up' ? 'From' : 'To'}
            hint={isManager ? 'Managers distribute the reserve of the pool.' : undefined}
            disabled={isManager}
            value={source}
            onChange={(event) => setSource(event.target.value as typeof source)}
          >
            <option value="new">
              {kind === 'top_up' ? 'a new grant (the pool grows)' : 'nobody (the pool shrinks)'}
            </option>
            <option value="pool">the reserve of the pool</option>
          </SelectField>
        )}
      </div>
      <PreviewView preview={preview} resource={resource} charge={charge} />
    </ActionDialog>
  );
}
