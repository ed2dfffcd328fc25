import type { Member } from '@bursar/client';
import { useState } from 'react';
import { bursar } from '../../../client/bursar.ts';
import { formatAmount } from '../../../shared/amount.ts';
import { TextField } from '../../../ui/field.tsx';
import { formatCount } from '../../../ui/format.ts';
import { Time } from '../../../ui/time.tsx';
import type { AccountFigures } from '../account-figures.tsx';
import { ActionDialog } from '../action-dialog.tsx';
import styles from '../admin.module.css';
import { findAccount } from './accounts.ts';
import { AmountField } from './amount-field.tsx';
import { parseAmount } from './parse-amount.ts';
import { type ProjectDialogProps, useProjectChange } from './project-changes.ts';

interface PeriodDialogProps extends ProjectDialogProps {
  accounts: readonly AccountFigures[];
  members: readonly Member[];
  /** The end of the current period. Null: it has none. */
  ends: string | null;
}

/** Opens a period in which every active member has a new grant of time. */
export function PeriodDialog({ project, charge, accounts, members, ends: currentEnd, onClose }: PeriodDialogProps) {
  const apply = useProjectChange(charge);
  const [starts, setStarts] = useState('');
  const [ends, setEnds] = useState('');
  const [memberText, setMemberText] = useState('');
  const [reserveText, setReserveText] = useState('');
  const memberSeconds = parseAmount(memberText, 'time', 0);
  const reserveSeconds = parseAmount(reserveText || '0', 'time', 0);
  const isOrdered = ends === '' || new Date(ends).getTime() > (starts === '' ? Date.now() : new Date(starts).getTime());

  const submit = (reason: string, key: string) =>
    apply(
      bursar.api.openPeriod({
        path: { hpc: project.hpc, project_name: project.project },
        headers: { 'Idempotency-Key': key },
        body: {
          ...(starts === '' ? {} : { starts: new Date(starts).toISOString() }),
          ...(ends === '' ? {} : { ends: new Date(ends).toISOString() }),
          member_seconds: memberSeconds ?? 0,
          reserve_seconds: reserveSeconds ?? 0,
          reason,
        },
      }),
      `${project.project} has a new period`,
    );

  return (
    <ActionDialog
      title={`New period of ${project.project}`}
      submitLabel="Open the period"
      canSubmit={memberSeconds !== undefined && reserveSeconds !== undefined && isOrdered}
      onClose={onClose}
      onSubmit={submit}
    >
      <div className={styles.fields}>
        <TextField
          label="Starts"
          type="datetime-local"
          hint="Empty: now."
          value={starts}
          onChange={(event) => setStarts(event.target.value)}
        />
        <TextField
          label="Ends"
          type="datetime-local"
          hint="Empty: no end."
          value={ends}
          error={isOrdered ? undefined : 'The period must end after its start.'}
          onChange={(event) => setEnds(event.target.value)}
        />
        <AmountField
          label="Each member"
          resource="time"
          charge={charge}
          value={memberText}
          onChange={setMemberText}
          isOptional
        />
        <AmountField
          label="Reserve"
          resource="time"
          charge={charge}
          value={reserveText}
          onChange={setReserveText}
          isOptional
        />
      </div>
      <PeriodPreview
        {...{ charge, accounts, members, currentEnd, starts }}
        memberSeconds={memberSeconds}
        reserveSeconds={reserveSeconds ?? 0}
      />
    </ActionDialog>
  );
}

interface PeriodPreviewProps extends Pick<PeriodDialogProps, 'charge' | 'accounts' | 'members'> {
  currentEnd: string | null;
  starts: string;
  memberSeconds: number | undefined;
  reserveSeconds: number;
}

function PeriodPreview(props: PeriodPreviewProps) {
  const { charge, accounts, members, currentEnd, starts, memberSeconds, reserveSeconds } = props;
  const format = (seconds: number) => formatAmount('time', seconds, charge);
  const active = members.filter(({ status }) => status === 'active').length;
  const pool = findAccount(accounts, null, 'time');
  const start = starts === '' ? 'now' : <Time value={new Date(starts).toISOString()} />;
  return (
    <div className={styles.preview} role="status" aria-label="Preview of the effect">
      <strong>Effect</strong>
      {memberSeconds === undefined ? (
        <p className="muted">Enter an amount for each member.</p>
      ) : (
        <ul>
          <li>
            {formatCount(active, 'active member')}: {format(memberSeconds)} each
          </li>
          <li>
            pool of the project: <strong>{format(active * memberSeconds + reserveSeconds)}</strong>, of which{' '}
            {format(reserveSeconds)} reserve
          </li>
          {pool !== undefined && currentEnd === null && (
            <li>
              The current period ends {start}. What is free in it then expires: {format(pool.available)} of the pool
              today.
            </li>
          )}
          {currentEnd !== null && (
            <li>
              The current period ends <Time value={currentEnd} />.
            </li>
          )}
        </ul>
      )}
    </div>
  );
}
