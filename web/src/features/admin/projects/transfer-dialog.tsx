import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { formatAmount, type Resource } from '../../../shared/amount.ts';
import { SelectField } from '../../../ui/field.tsx';
import type { AccountFigures } from '../account-figures.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import styles from '../admin.module.css';
import { AmountField } from './amount-field.tsx';
import { previewGrant } from './grant-preview.ts';
import { parseAmount } from './parse-amount.ts';
import { PreviewView } from './preview-view.tsx';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

interface TransferDialogProps extends ProjectDialogProps {
  accounts: readonly AccountFigures[];
  from: string;
  /** The other members, who can receive it. */
  receivers: readonly string[];
}

/** Moves a grant from one member to another. The pool stays the same. */
export function TransferDialog({ project, charge, accounts, from, receivers, onClose }: TransferDialogProps) {
  const apply = useProjectChange(charge);
  const [to, setTo] = useState(receivers[0] ?? '');
  const [resource, setResource] = useState<Resource>('time');
  const [text, setText] = useState('');
  const amount = parseAmount(text, resource);
  const preview =
    amount === undefined ? undefined : previewGrant(accounts, { kind: 'transfer', from, to, resource, amount });

  const submit = (reason: string, key: string) =>
    apply(
      bursar.api.transferGrant({
        path: { hpc: project.hpc, project_name: project.project },
        headers: { 'Idempotency-Key': key },
        body: { from, to, resource, amount: amount ?? 0, reason },
      }),
      `${formatAmount(resource, amount ?? 0, charge)} moved from user ${from} to user ${to}`,
    );

  return (
    <ActionDialog
      title={`Transfer from user ${from}`}
      submitLabel="Transfer"
      canSubmit={preview !== undefined && preview.problem === undefined}
      onClose={onClose}
      onSubmit={submit}
    >
      <div className={styles.fields}>
        <SelectField label="To" value={to} onChange={(event) => setTo(event.target.value)}>
          {receivers.map((user) => (
            <option key={user} value={user}>
              user {user}
            </option>
          ))}
        </SelectField>
        <SelectField label="Of" value={resource} onChange={(event) => setResource(event.target.value as Resource)}>
          <option value="time">Time</option>
          <option value="space">Space</option>
        </SelectField>
        <AmountField label="Amount" resource={resource} charge={charge} value={text} onChange={setText} />
      </div>
      <PreviewView preview={preview} resource={resource} charge={charge} />
    </ActionDialog>
  );
}
